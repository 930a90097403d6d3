import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Lite --names A --group G --topic T [--tags "A||B"] [--from first|last] [--broadcast yes] [--commit auto|sync|no]
 *   [--assign BROKER:QUEUE=OFFSET,...] [--pull N] [--max N] [--user NAME:SECRET] [--tls yes]
 * The lite pull consumer, until N messages or a signal: subscribed, or assigned to queues from these offsets (-1: from
 * where the group is). Lines: ready, holding (whenever it changes), message, committed, error, closed.
 */
public final class Lite {
    private static final long POLL_MS = 100;

    public static void main(String[] args) throws Throwable {
        Lines lines = new Lines(args);
        DefaultLitePullConsumer consumer = lines.located(new DefaultLitePullConsumer(lines.text("group", null), lines.signing()));
        consumer.setAutoCommit(lines.text("commit", "auto").equals("auto"));
        consumer.setPullBatchSize((int) lines.number("pull", 10));
        consumer.setConsumeFromWhere(lines.text("from", "first").equals("first")
                ? ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET : ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET);
        Lines.model(consumer, lines.told("broadcast") ? "BROADCASTING" : "CLUSTERING");
        try {
            begin(consumer, lines);
            Lines.line("event", "ready", "client", consumer.buildMQClientId());
            read(consumer, lines);
        } catch (Exception refused) {
            Lines.line("event", "error", "text", "" + refused);
        }
        consumer.shutdown();
        Lines.closed();
    }

    private static void begin(DefaultLitePullConsumer consumer, Lines lines) throws Exception {
        Map<MessageQueue, Long> assigned = new LinkedHashMap<>();
        for (String item : lines.list("assign")) {
            String[] parts = item.split("[:=]");
            assigned.put(new MessageQueue(lines.text("topic", null), parts[0], Integer.parseInt(parts[1])), Long.parseLong(parts[2]));
        }
        if (assigned.isEmpty()) {
            consumer.subscribe(lines.text("topic", null), lines.text("tags", "*"));
            consumer.start();
            return;
        }
        consumer.start();
        consumer.assign(assigned.keySet());
        for (Map.Entry<MessageQueue, Long> each : assigned.entrySet()) {
            if (each.getValue() >= 0) {
                consumer.seek(each.getKey(), each.getValue());
            }
        }
    }

    private static void read(DefaultLitePullConsumer consumer, Lines lines) throws Exception {
        boolean assigned = !lines.list("assign").isEmpty();
        boolean commits = lines.text("commit", "auto").equals("sync");
        long most = lines.number("max", Long.MAX_VALUE);
        Set<String> held = new TreeSet<>();
        for (long count = 0; Lines.wanted() && count < most;) {
            List<MessageExt> messages = consumer.poll(POLL_MS);
            Collection<MessageQueue> queues = assigned ? List.of() : consumer.assignment();
            Set<String> now = new TreeSet<>();
            queues.forEach(queue -> now.add(Lines.name(queue)));
            if (!now.equals(held)) {
                held = now;
                Lines.line("event", "holding", "partitions", held);
            }
            messages.forEach(Lines::message);
            count += messages.size();
            if (commits && !messages.isEmpty()) {
                consumer.commitSync();
                Lines.line("event", "committed", "count", count);
            }
        }
    }
}
