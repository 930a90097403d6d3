import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.inlong.tubemq.client.common.ConfirmResult;
import org.apache.inlong.tubemq.client.common.ConsumeResult;
import org.apache.inlong.tubemq.client.common.QueryMetaResult;
import org.apache.inlong.tubemq.client.config.ConsumerConfig;
import org.apache.inlong.tubemq.client.consumer.ClientBalanceConsumer;
import org.apache.inlong.tubemq.client.factory.TubeSingleSessionFactory;
import org.apache.inlong.tubemq.corebase.rv.ProcessResult;

/**
 * Balance --masters A --group G --topics one,two@blue;red [--count N --node I] [--offsets 1:one:0=28,...]
 *   [--position first|latest|max] [--confirm yes|no|rollback] [--heartbeat MS] [--max N]
 * The client-balanced consumer, until N messages or a signal: connects the partitions of --offsets (a negative offset:
 * where the group is), or, without them, node I's share of COUNT, by the rule of TubeMQ's own example: the key's hash
 * code, unsigned, modulo COUNT. Lines as Pull prints, and one for each connect.
 */
public final class Balance {
    public static void main(String[] args) throws Throwable {
        Lines lines = new Lines(args);
        ConsumerConfig config = lines.consumer();
        config.setPartMetaInfoCheckPeriodMs(5000);
        TubeSingleSessionFactory factory = new TubeSingleSessionFactory(config);
        ClientBalanceConsumer consumer = factory.createBalanceConsumer(config);
        ProcessResult started = new ProcessResult();
        if (consumer.start(lines.topics(), (int) lines.number("count", -2), (int) lines.number("node", -2), started)) {
            Lines.line("event", "ready", "client", consumer.getConsumerId());
            read(consumer, lines);
        } else {
            Lines.line("event", "error", "code", started.getErrCode(), "text", started.getErrMsg(), "partition", null);
        }
        consumer.shutdown();
        factory.shutdown();
        Lines.closed();
    }

    private static void read(ClientBalanceConsumer consumer, Lines lines) throws Exception {
        Set<String> held = new TreeSet<>();
        String confirm = lines.text("confirm", "yes");
        ConsumeResult got = new ConsumeResult();
        long count = 0;
        long look = 0;
        while (Lines.wanted() && count < lines.number("max", Long.MAX_VALUE)) {
            if (System.currentTimeMillis() >= look) {
                look = System.currentTimeMillis() + 5000;
                connect(consumer, lines);
            }
            Set<String> now = new TreeSet<>(consumer.getCurRegisteredPartSet());
            if (!now.equals(held)) {
                held = now;
                Lines.line("event", "holding", "partitions", held);
            }
            if (!consumer.getMessage(got)) {
                Lines.trouble(got.getErrCode(), got.getErrMsg(), got.getPartitionKey());
                continue;
            }
            count += Lines.batch(got.getTopicName(), got.getPartitionKey(), got.getPeerInfo(), got.getMessageList());
            if (!confirm.equals("no")) {
                ConfirmResult done = new ConfirmResult();
                consumer.confirmConsume(got.getConfirmContext(), !confirm.equals("rollback"), done);
                Lines.line("event", "confirm", "partition", got.getPartitionKey(), "success", done.isSuccess(),
                        "code", done.getErrCode(), "next", done.getPeerInfo() == null ? null : done.getPeerInfo().getCurrOffset());
            }
        }
    }

    private static void connect(ClientBalanceConsumer consumer, Lines lines) throws Exception {
        QueryMetaResult meta = new QueryMetaResult();
        if (!consumer.getPartitionMetaInfo(meta)) {
            Lines.line("event", "error", "code", meta.getErrCode(), "text", meta.getErrMsg(), "partition", null);
            return;
        }
        Map<String, Long> offsets = lines.numbers("offsets");
        int count = consumer.getSourceCount();
        for (var entry : new java.util.TreeMap<>(meta.getPartStatusMap()).entrySet()) {
            String key = entry.getKey();
            boolean share = count <= 0 || Integer.toUnsignedLong(key.hashCode()) % count == consumer.getNodeId();
            boolean mine = offsets.isEmpty() ? share : offsets.containsKey(key);
            if (mine && entry.getValue() && !consumer.getCurRegisteredPartSet().contains(key)) {
                ProcessResult result = new ProcessResult();
                boolean done = consumer.connect2Partition(key, offsets.getOrDefault(key, -1L), result);
                Lines.line("event", "connect", "partition", key, "success", done, "code", result.getErrCode(),
                        "text", done ? null : result.getErrMsg());
            }
        }
    }
}
