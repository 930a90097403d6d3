import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.apache.inlong.tubemq.client.common.ConfirmResult;
import org.apache.inlong.tubemq.client.common.ConsumeResult;
import org.apache.inlong.tubemq.client.common.QueryMetaResult;
import org.apache.inlong.tubemq.client.config.ConsumerConfig;
import org.apache.inlong.tubemq.client.config.TubeClientConfig;
import org.apache.inlong.tubemq.client.consumer.ClientBalanceConsumer;
import org.apache.inlong.tubemq.client.consumer.ConsumePosition;
import org.apache.inlong.tubemq.client.consumer.ConsumerResult;
import org.apache.inlong.tubemq.client.consumer.PullMessageConsumer;
import org.apache.inlong.tubemq.client.factory.TubeSingleSessionFactory;
import org.apache.inlong.tubemq.client.producer.MessageProducer;
import org.apache.inlong.tubemq.client.producer.MessageSentCallback;
import org.apache.inlong.tubemq.client.producer.MessageSentResult;
import org.apache.inlong.tubemq.corebase.Message;
import org.apache.inlong.tubemq.corebase.rv.ProcessResult;

/**
 * Small --masters A --topic T --kind send|flying|pace|pull|balance --count N --warm M [--size BYTES] [--rate R]
 *   [--not-found MS]
 *
 * Messages one at a time, by a client that is warm: M of them that nobody times, then N. send: each is waited for;
 * flying: a hundred without an answer at any time; pace: R a second, those for warming up as fast as four times that,
 * with the machine's monotonic clock in their first twenty bytes; pull and balance: all of a topic from its beginning, as
 * it comes, each batch confirmed, locally. Of readers the first fifth of N is not counted either. Lines: ready (readers),
 * begun, measured. It ends with its standard input, so that it does not outlive who started it.
 */
public final class Small {
    private static final OperatingSystemMXBean SYSTEM = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    private static final int FLYING = 100;
    private static final int PACE_AHEAD = 10_000;
    private static final int WARM_TIMES = 4;
    private static final long LATE_NS = 50_000_000;
    private static final long SILENCE_NS = 20_000_000_000L;

    private final Lines told;
    private final String topic;
    private final int count;
    private final int warm;
    private final AtomicLong failed = new AtomicLong();
    private long begun;
    private long cpu;

    private Small(Lines told) {
        this.told = told;
        topic = told.text("topic", null);
        count = (int) told.number("count", 0);
        warm = (int) told.number("warm", 0);
    }

    public static void main(String[] args) throws Throwable {
        Small small = new Small(new Lines(args));
        Options.endWithInput();
        switch (small.told.text("kind", "send")) {
            case "send", "flying", "pace" -> small.produce();
            case "pull" -> small.pull();
            case "balance" -> small.balance();
            default -> throw new IllegalArgumentException(small.told.text("kind", ""));
        }
        Options.done();
    }

    private void begin() {
        Lines.line("event", "begun");
        cpu = SYSTEM.getProcessCpuTime();
        begun = System.nanoTime();
    }

    private void produce() throws Throwable {
        TubeClientConfig config = new TubeClientConfig(told.text("masters", null));
        config.setHeartbeatPeriodMs(3000);
        TubeSingleSessionFactory factory = new TubeSingleSessionFactory(config);
        MessageProducer producer = factory.createProducer();
        producer.publish(topic);
        while (!producer.sendMessage(new Message(topic, stamped())).isSuccess()) {
            Thread.sleep(50);
        }
        long rate = told.number("rate", 500);
        go(producer, warm - 1, rate * WARM_TIMES);
        begin();
        long late = go(producer, count, rate);
        long seconds = System.nanoTime() - begun;
        long spent = SYSTEM.getProcessCpuTime() - cpu;
        Lines.line("event", "measured", "seconds", seconds / 1e9, "cpu_s", spent / 1e9, "failed", failed.get(), "late", late);
        producer.shutdown();
        factory.shutdown();
    }

    /** How many of these went late, where there is a pace. */
    private long go(MessageProducer producer, int records, long rate) throws Throwable {
        switch (told.text("kind", "send")) {
            case "send" -> sendEach(producer, records);
            case "flying" -> sendAhead(producer, records);
            default -> {
                return pace(producer, records, rate);
            }
        }
        return 0;
    }

    private byte[] value() {
        byte[] value = new byte[(int) told.number("size", 100)];
        Arrays.fill(value, (byte) 'x');
        return value;
    }

    private byte[] stamped() {
        byte[] value = value();
        byte[] stamp = Ages.stamp();
        System.arraycopy(stamp, 0, value, 0, stamp.length);
        return value;
    }

    private void sendEach(MessageProducer producer, int records) throws Throwable {
        byte[] value = value();
        for (int i = 0; i < records; i++) {
            if (!producer.sendMessage(new Message(topic, value)).isSuccess()) {
                failed.incrementAndGet();
            }
        }
    }

    private void sendAhead(MessageProducer producer, int records) throws Throwable {
        byte[] value = value();
        Semaphore room = new Semaphore(FLYING);
        for (int i = 0; i < records; i++) {
            room.acquire();
            producer.sendMessage(new Message(topic, value), counted(room));
        }
        room.acquire(FLYING);
    }

    /** How many went much later than they should have gone. */
    private long pace(MessageProducer producer, int records, long rate) throws Throwable {
        Semaphore room = new Semaphore(PACE_AHEAD);
        long late = 0;
        long started = System.nanoTime();
        for (int i = 0; i < records; i++) {
            long left = started + i * 1_000_000_000L / rate - System.nanoTime();
            late += left < -LATE_NS ? 1 : 0;
            for (; left > 0; left = started + i * 1_000_000_000L / rate - System.nanoTime()) {
                LockSupport.parkNanos(left);
            }
            room.acquire();
            producer.sendMessage(new Message(topic, stamped()), counted(room));
        }
        room.acquire(PACE_AHEAD);
        return late;
    }

    private MessageSentCallback counted(Semaphore room) {
        return new MessageSentCallback() {
            @Override
            public void onMessageSent(MessageSentResult result) {
                room.release();
                if (!result.isSuccess()) {
                    failed.incrementAndGet();
                }
            }

            @Override
            public void onException(Throwable trouble) {
                room.release();
                failed.incrementAndGet();
            }
        };
    }

    private ConsumerConfig config() {
        ConsumerConfig config = new ConsumerConfig(told.text("masters", null), "small_" + System.nanoTime());
        config.setHeartbeatPeriodMs(1000);
        config.setConsumePosition(ConsumePosition.CONSUMER_FROM_FIRST_OFFSET);
        config.setPullConfirmInLocal(true);
        config.setPullConsumeReadyWaitPeriodMs(500);
        config.setMsgNotFoundWaitPeriodMs(told.number("not-found", 10));
        return config;
    }

    /** Asks once: the messages that came, confirmed; none where there were none. */
    private interface Step {
        List<Message> go() throws Exception;
    }

    private void pull() throws Exception {
        ConsumerConfig config = config();
        TubeSingleSessionFactory factory = new TubeSingleSessionFactory(config);
        PullMessageConsumer consumer = factory.createPullConsumer(config);
        consumer.subscribe(topic, null);
        consumer.completeSubscribe();
        follow(() -> {
            ConsumerResult result = consumer.getMessage();
            if (!result.isSuccess()) {
                return List.of();
            }
            consumer.confirmConsume(result.getConfirmContext(), true);
            return result.getMessageList();
        });
        factory.shutdown();
    }

    private void balance() throws Exception {
        ConsumerConfig config = config();
        TubeSingleSessionFactory factory = new TubeSingleSessionFactory(config);
        ClientBalanceConsumer consumer = factory.createBalanceConsumer(config);
        Map<String, TreeSet<String>> topics = new TreeMap<>();
        topics.put(topic, new TreeSet<>());
        ProcessResult result = new ProcessResult();
        QueryMetaResult meta = new QueryMetaResult();
        if (!consumer.start(topics, 1, 0, result) || !consumer.getPartitionMetaInfo(meta)) {
            throw new IllegalStateException(result.getErrMsg() + " " + meta.getErrMsg());
        }
        for (String key : meta.getPartStatusMap().keySet()) {
            if (!consumer.connect2Partition(key, 0, result)) {
                throw new IllegalStateException(result.getErrMsg());
            }
        }
        follow(() -> {
            ConsumeResult found = new ConsumeResult();
            if (!consumer.getMessage(found)) {
                return List.of();
            }
            consumer.confirmConsume(found.getConfirmContext(), true, new ConfirmResult());
            return found.getMessageList();
        });
        factory.shutdown();
    }

    private void follow(Step step) throws Exception {
        Lines.line("event", "ready");
        long[] ages = new long[warm + count];
        int at = 0;
        int from = 0;
        long heard = System.nanoTime();
        while (at < ages.length) {
            List<Message> messages = step.go();
            long now = System.nanoTime();
            if (now - heard > SILENCE_NS) {
                throw new IllegalStateException(at + " came");
            }
            for (Message each : messages) {
                heard = now;
                if (at < ages.length) {
                    ages[at++] = Ages.age(each.getData());
                }
            }
            if (from == 0 && at >= warm + count / 5) {
                from = at;
                begin();
            }
        }
        long spent = SYSTEM.getProcessCpuTime() - cpu;
        long[] counted = Arrays.copyOfRange(ages, from, ages.length);
        Arrays.sort(counted);
        Lines.line("event", "measured", "p50", Ages.share(counted, 0.5), "p99", Ages.share(counted, 0.99),
                "p999", Ages.share(counted, 0.999), "cpu_us", spent / 1e3 / counted.length, "failed", failed.get());
    }
}
