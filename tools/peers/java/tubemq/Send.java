import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Map;
import org.apache.inlong.tubemq.client.config.TubeClientConfig;
import org.apache.inlong.tubemq.client.factory.TubeSingleSessionFactory;
import org.apache.inlong.tubemq.client.producer.MessageProducer;
import org.apache.inlong.tubemq.client.producer.MessageSentResult;
import org.apache.inlong.tubemq.corebase.Message;

/**
 * Send --masters A [--heartbeat MS] [--publish-ms MS]: messages from standard input, one JSON object a line:
 * {"topic": T, "body": BASE64[, "filter": F, "time": "yyyyMMddHHmm"][, "attributes": {K: V}]}. Answers each with a line.
 * A topic that the master does not offer yet is asked for again for --publish-ms.
 */
public final class Send {
    public static void main(String[] args) throws Throwable {
        Lines lines = new Lines(args);
        TubeClientConfig config = new TubeClientConfig(lines.text("masters", null));
        config.setHeartbeatPeriodMs(lines.number("heartbeat", 1000));
        config.setRpcTimeoutMs(lines.number("timeout", 10000));
        TubeSingleSessionFactory factory = new TubeSingleSessionFactory(config);
        MessageProducer producer = factory.createProducer();
        Lines.line("event", "ready");
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String text = input.readLine(); text != null && Lines.wanted(); text = input.readLine()) {
            JsonObject wanted = JsonParser.parseString(text).getAsJsonObject();
            String topic = wanted.get("topic").getAsString();
            producer.publish(topic);
            send(producer, topic, wanted, System.currentTimeMillis() + lines.number("publish-ms", 30000));
        }
        producer.shutdown();
        factory.shutdown();
        Lines.closed();
    }

    private static void send(MessageProducer producer, String topic, JsonObject wanted, long deadline) throws Throwable {
        while (true) {
            MessageSentResult sent = producer.sendMessage(message(topic, wanted));
            boolean unknown = !sent.isSuccess() && (sent.getErrCode() == 443 || sent.getErrCode() == 444);
            if (!unknown || System.currentTimeMillis() > deadline || !Lines.wanted()) {
                Lines.line("event", "sent", "success", sent.isSuccess(), "code", sent.getErrCode(),
                        "text", sent.isSuccess() ? null : sent.getErrMsg(), "topic", topic,
                        "partition", sent.getPartition() == null ? null : sent.getPartition().getPartitionKey(),
                        "offset", sent.getAppendOffset(), "id", sent.getMessageId(), "time", sent.getAppendTime());
                return;
            }
            Thread.sleep(50);
        }
    }

    private static Message message(String topic, JsonObject wanted) {
        Message message = new Message(topic, Base64.getDecoder().decode(wanted.get("body").getAsString()));
        if (wanted.has("filter")) {
            message.putSystemHeader(wanted.get("filter").getAsString(), wanted.get("time").getAsString());
        }
        if (wanted.has("attributes")) {
            for (Map.Entry<String, JsonElement> pair : wanted.getAsJsonObject("attributes").entrySet()) {
                message.setAttrKeyVal(pair.getKey(), pair.getValue().getAsString());
            }
        }
        return message;
    }
}
