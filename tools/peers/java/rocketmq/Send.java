import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Send --names A --group G [--check commit|rollback|unknown] [--timeout MS] [--retries N] [--compress-over BYTES]
 *   [--elsewhere yes] [--user NAME:SECRET] [--tls yes]
 * Messages from standard input, one JSON object a line: {"topic": T, "bodies": [BASE64, ...][, "tags": T, "keys": K,
 * "properties": {K: V}, "delay": LEVEL, "flag": N, "how": sync|async|oneway|transaction|request, "broker": B, "queue": N,
 * "by": TEXT, "outcome": commit|rollback|unknown]}. Several bodies are a batch; "by" chooses the queue by its hash.
 * Lines: ready, then for each line one "sent" or "failed" with its number; check (asked by a broker); closed.
 * With --check it is a transactional producer, which answers brokers with that. --elsewhere: another broker is tried
 * where one answers that it could not store.
 */
public final class Send {
    private final DefaultMQProducer producer;

    private Send(DefaultMQProducer producer) {
        this.producer = producer;
    }

    public static void main(String[] args) throws Throwable {
        Lines lines = new Lines(args);
        DefaultMQProducer producer = lines.located(made(lines));
        producer.setSendMsgTimeout((int) lines.number("timeout", 30000));
        producer.setRetryTimesWhenSendFailed((int) lines.number("retries", 2));
        producer.setRetryTimesWhenSendAsyncFailed((int) lines.number("retries", 2));
        producer.setCompressMsgBodyOverHowmuch((int) lines.number("compress-over", 4096));
        producer.setRetryAnotherBrokerWhenNotStoreOK(lines.told("elsewhere"));
        producer.start();
        Lines.line("event", "ready", "client", producer.buildMQClientId());
        Send send = new Send(producer);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        long number = 0;
        for (String text = input.readLine(); text != null && Lines.wanted(); text = input.readLine()) {
            JSONObject wanted = JSON.parseObject(text);
            try {
                send.one(number, wanted);
            } catch (Exception trouble) {
                failed(number, trouble);
            }
            number++;
        }
        producer.shutdown();
        Lines.closed();
    }

    private static DefaultMQProducer made(Lines lines) {
        String group = lines.text("group", "senders");
        if (!lines.options.containsKey("check")) {
            return new DefaultMQProducer(group, lines.signing());
        }
        TransactionMQProducer producer = new TransactionMQProducer(group, lines.signing());
        LocalTransactionState answer = state(lines.text("check", null));
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object outcome) {
                return state((String) outcome);
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                Lines.line("event", "check", "topic", message.getTopic(), "id", message.getMsgId(),
                        "transaction", message.getTransactionId(), "offset", message.getQueueOffset(),
                        "body", Base64.getEncoder().encodeToString(message.getBody()),
                        "properties", message.getProperties());
                return answer;
            }
        });
        return producer;
    }

    private static LocalTransactionState state(String name) {
        return Map.of("commit", LocalTransactionState.COMMIT_MESSAGE, "rollback", LocalTransactionState.ROLLBACK_MESSAGE,
                "unknown", LocalTransactionState.UNKNOW).get(name);
    }

    private void one(long number, JSONObject wanted) throws Exception {
        List<Message> messages = messages(wanted);
        MessageQueue queue = wanted.containsKey("queue")
                ? new MessageQueue(wanted.getString("topic"), wanted.getString("broker"), wanted.getIntValue("queue")) : null;
        String how = wanted.containsKey("how") ? wanted.getString("how") : "sync";
        if (how.equals("transaction")) {
            sent(number, producer.sendMessageInTransaction(messages.get(0), wanted.getString("outcome")));
        } else if (how.equals("request")) {
            Message reply = producer.request(messages.get(0), producer.getSendMsgTimeout());
            Lines.line("event", "sent", "n", number, "reply", Base64.getEncoder().encodeToString(reply.getBody()));
        } else if (how.equals("async")) {
            async(messages, queue, wanted.getString("by"), answering(number));
        } else if (how.equals("oneway")) {
            oneway(messages.get(0), queue, wanted.getString("by"));
            Lines.line("event", "sent", "n", number);
        } else {
            sent(number, sync(messages, queue, wanted.getString("by")));
        }
    }

    private SendResult sync(List<Message> messages, MessageQueue queue, String by) throws Exception {
        if (messages.size() > 1) {
            return queue == null ? producer.send(messages) : producer.send(messages, queue);
        }
        if (by != null) {
            return producer.send(messages.get(0), new SelectMessageQueueByHash(), by);
        }
        return queue == null ? producer.send(messages.get(0)) : producer.send(messages.get(0), queue);
    }

    private void async(List<Message> messages, MessageQueue queue, String by, SendCallback told) throws Exception {
        if (messages.size() > 1) {
            producer.send(messages, told);
        } else if (by != null) {
            producer.send(messages.get(0), new SelectMessageQueueByHash(), by, told);
        } else if (queue != null) {
            producer.send(messages.get(0), queue, told);
        } else {
            producer.send(messages.get(0), told);
        }
    }

    private void oneway(Message message, MessageQueue queue, String by) throws Exception {
        if (by != null) {
            producer.sendOneway(message, new SelectMessageQueueByHash(), by);
        } else if (queue != null) {
            producer.sendOneway(message, queue);
        } else {
            producer.sendOneway(message);
        }
    }

    private static List<Message> messages(JSONObject wanted) {
        List<Message> found = new ArrayList<>();
        JSONArray bodies = wanted.getJSONArray("bodies");
        for (int i = 0; i < bodies.size(); i++) {
            Message message = new Message(wanted.getString("topic"), Base64.getDecoder().decode(bodies.getString(i)));
            if (wanted.containsKey("tags")) {
                message.setTags(wanted.getString("tags"));
            }
            if (wanted.containsKey("keys")) {
                message.setKeys(wanted.getString("keys"));
            }
            if (wanted.containsKey("delay")) {
                message.setDelayTimeLevel(wanted.getIntValue("delay"));
            }
            message.setFlag(wanted.getIntValue("flag"));
            if (wanted.containsKey("properties")) {
                wanted.getJSONObject("properties").forEach((name, value) -> message.putUserProperty(name, (String) value));
            }
            found.add(message);
        }
        return found;
    }

    private static SendCallback answering(long number) {
        return new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                sent(number, result);
            }

            @Override
            public void onException(Throwable trouble) {
                failed(number, trouble);
            }
        };
    }

    private static void sent(long number, SendResult result) {
        boolean decided = result instanceof TransactionSendResult;
        Lines.line("event", "sent", "n", number, "status", result.getSendStatus().name(), "id", result.getMsgId(),
                "offset_id", result.getOffsetMsgId(), "broker", result.getMessageQueue().getBrokerName(),
                "queue", result.getMessageQueue().getQueueId(), "offset", result.getQueueOffset(),
                "transaction", result.getTransactionId(),
                "state", decided ? ((TransactionSendResult) result).getLocalTransactionState().name() : null);
    }

    private static void failed(long number, Throwable trouble) {
        int code = trouble instanceof MQBrokerException ? ((MQBrokerException) trouble).getResponseCode()
                : trouble instanceof MQClientException ? ((MQClientException) trouble).getResponseCode() : -1;
        Lines.line("event", "failed", "n", number, "code", code, "text", "" + trouble);
    }
}
