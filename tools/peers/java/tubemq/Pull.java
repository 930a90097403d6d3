import java.util.Set;
import java.util.TreeSet;
import org.apache.inlong.tubemq.client.config.ConsumerConfig;
import org.apache.inlong.tubemq.client.consumer.ConsumerResult;
import org.apache.inlong.tubemq.client.consumer.PullMessageConsumer;
import org.apache.inlong.tubemq.client.factory.TubeSingleSessionFactory;

/**
 * Pull --masters A --group G --topics one,two@blue;red [--position first|latest|max] [--confirm yes|no|rollback|local]
 *   [--heartbeat MS] [--max N] [--session KEY --count N [--big true|false] [--offsets 1:one:0=28,...]]
 * The server-balanced consumer, until N messages or a signal. Lines: holding (whenever it changes), message, confirm,
 * error, closed.
 */
public final class Pull {
    public static void main(String[] args) throws Throwable {
        Lines lines = new Lines(args);
        ConsumerConfig config = lines.consumer();
        TubeSingleSessionFactory factory = new TubeSingleSessionFactory(config);
        PullMessageConsumer consumer = factory.createPullConsumer(config);
        for (var topic : lines.topics().entrySet()) {
            consumer.subscribe(topic.getKey(), topic.getValue().isEmpty() ? null : topic.getValue());
        }
        try {
            if (lines.options.containsKey("session")) {
                consumer.completeSubscribe(lines.text("session", null), (int) lines.number("count", 1),
                        Boolean.parseBoolean(lines.text("big", "true")), lines.numbers("offsets"));
            } else {
                consumer.completeSubscribe();
            }
            Lines.line("event", "ready", "client", consumer.getConsumerId());
            read(consumer, lines.text("confirm", "yes"), lines.number("max", Long.MAX_VALUE));
        } catch (Exception refused) {
            Lines.line("event", "error", "code", -1, "text", "" + refused, "partition", null);
        }
        consumer.shutdown();
        factory.shutdown();
        Lines.closed();
    }

    private static void read(PullMessageConsumer consumer, String confirm, long most) throws Exception {
        Set<String> held = new TreeSet<>();
        long count = 0;
        while (Lines.wanted() && count < most) {
            ConsumerResult result = consumer.getMessage();
            Set<String> now = new TreeSet<>(consumer.getCurConsumedPartitions().keySet());
            if (!now.equals(held)) {
                held = now;
                Lines.line("event", "holding", "partitions", held);
            }
            if (!result.isSuccess()) {
                Lines.trouble(result.getErrCode(), result.getErrMsg(), result.getPartitionKey());
                continue;
            }
            count += Lines.batch(result.getTopicName(), result.getPartitionKey(), result.getPeerInfo(), result.getMessageList());
            if (!confirm.equals("no")) {
                ConsumerResult done = consumer.confirmConsume(result.getConfirmContext(), !confirm.equals("rollback"));
                Lines.line("event", "confirm", "partition", result.getPartitionKey(), "success", done.isSuccess(),
                        "code", done.getErrCode(), "next", done.getPeerInfo() == null ? null : done.getPeerInfo().getCurrOffset());
            }
        }
    }
}
