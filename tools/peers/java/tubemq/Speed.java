import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.inlong.tubemq.client.common.ConfirmResult;
import org.apache.inlong.tubemq.client.common.ConsumeResult;
import org.apache.inlong.tubemq.client.common.QueryMetaResult;
import org.apache.inlong.tubemq.client.config.ConsumerConfig;
import org.apache.inlong.tubemq.client.config.TubeClientConfig;
import org.apache.inlong.tubemq.client.consumer.ClientBalanceConsumer;
import org.apache.inlong.tubemq.client.consumer.ConsumerResult;
import org.apache.inlong.tubemq.client.consumer.PullMessageConsumer;
import org.apache.inlong.tubemq.client.factory.TubeSingleSessionFactory;
import org.apache.inlong.tubemq.client.producer.MessageProducer;
import org.apache.inlong.tubemq.client.producer.MessageSentCallback;
import org.apache.inlong.tubemq.client.producer.MessageSentResult;
import org.apache.inlong.tubemq.corebase.Message;
import org.apache.inlong.tubemq.corebase.rv.ProcessResult;

/**
 * Speed --masters A --topic T --count N --warm M --kind pull|balance|send [--threads 4] [--size BYTES] [--in-flight 2000]
 *
 * What the client reaches once it is warm: M messages in a group (or producer) of their own that nobody times, then N.
 * One line: records, seconds (consumers: from the first batch to the last, without the first), CPU seconds of this JVM in
 * that time, bytes of bodies, seconds from the beginning to the first batch.
 */
public final class Speed {
    private static final OperatingSystemMXBean SYSTEM = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    private final Lines lines;
    private final AtomicLong records = new AtomicLong();
    private final AtomicLong bytes = new AtomicLong();
    private final AtomicLong failed = new AtomicLong();
    private long born;
    private long begun;
    private long cpu;
    private long firstRecords;
    private long last;
    private long lastCpu;

    private Speed(Lines lines) {
        this.lines = lines;
    }

    public static void main(String[] args) throws Throwable {
        Lines lines = new Lines(args);
        boolean sends = lines.text("kind", "pull").equals("send");
        for (String round : List.of("warm", "count")) {
            Speed speed = new Speed(lines);
            long count = lines.number(round, 0);
            if (sends) {
                speed.send(count);
            } else {
                speed.consume(count);
            }
            if (round.equals("count")) {
                speed.told();
            }
        }
        Lines.closed();
    }

    private void told() {
        Lines.line("event", "measured", "records", records.get() - firstRecords, "seconds", (last - begun) / 1e9,
                "cpu_s", (lastCpu - cpu) / 1e9, "bytes", bytes.get(), "start_s", (begun - born) / 1e9, "failed", failed.get());
    }

    private void send(long count) throws Throwable {
        TubeClientConfig config = new TubeClientConfig(lines.text("masters", null));
        config.setHeartbeatPeriodMs(3000);
        TubeSingleSessionFactory factory = new TubeSingleSessionFactory(config);
        MessageProducer producer = factory.createProducer();
        String topic = lines.text("topic", null);
        producer.publish(topic);
        byte[] body = new byte[(int) lines.number("size", 100)];
        java.util.Arrays.fill(body, (byte) 'x');
        while (!producer.sendMessage(new Message(topic, body)).isSuccess()) {
            Thread.sleep(50);
        }
        int most = (int) lines.number("in-flight", 2000);
        Semaphore room = new Semaphore(most);
        born = begun = System.nanoTime();
        cpu = SYSTEM.getProcessCpuTime();
        for (long i = 0; i < count; i++) {
            room.acquire();
            producer.sendMessage(new Message(topic, body), new MessageSentCallback() {
                @Override
                public void onMessageSent(MessageSentResult result) {
                    room.release();
                    (result.isSuccess() ? records : failed).incrementAndGet();
                }

                @Override
                public void onException(Throwable trouble) {
                    room.release();
                    failed.incrementAndGet();
                }
            });
        }
        room.acquire(most);
        last = System.nanoTime();
        lastCpu = SYSTEM.getProcessCpuTime();
        bytes.set(count * body.length);
        producer.shutdown();
        factory.shutdown();
    }

    /** Fetches, hands over and confirms one batch; false if there was none. */
    private interface Step {
        boolean go() throws Exception;
    }

    private void consume(long count) throws Throwable {
        ConsumerConfig config = new ConsumerConfig(lines.text("masters", null), "speed_" + System.nanoTime());
        config.setHeartbeatPeriodMs(1000);
        config.setConsumePosition(org.apache.inlong.tubemq.client.consumer.ConsumePosition.CONSUMER_FROM_FIRST_OFFSET);
        config.setPullConfirmInLocal(true);
        config.setPullConsumeReadyWaitPeriodMs(500);
        config.setPullConsumeReadyChkSliceMs(1);
        config.setMsgNotFoundWaitPeriodMs(1);
        TubeSingleSessionFactory factory = new TubeSingleSessionFactory(config);
        born = System.nanoTime();
        Step step = lines.text("kind", "pull").equals("pull") ? pull(factory, config) : balance(factory, config);
        Thread[] threads = new Thread[(int) lines.number("threads", 4)];
        for (int i = 0; i < threads.length; i++) {
            threads[i] = new Thread(() -> {
                try {
                    while (records.get() < count) {
                        step.go();
                    }
                } catch (Exception trouble) {
                    Lines.line("event", "error", "code", -1, "text", "" + trouble, "partition", null);
                }
            });
            threads[i].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        factory.shutdown();
    }

    private synchronized void got(List<Message> messages) {
        if (messages.isEmpty()) {
            return;
        }
        long now = System.nanoTime();
        if (begun == 0) {
            begun = now;
            cpu = SYSTEM.getProcessCpuTime();
            firstRecords = messages.size();
        }
        long sum = 0;
        for (Message message : messages) {
            sum += message.getData().length;
        }
        bytes.addAndGet(sum);
        records.addAndGet(messages.size());
        last = System.nanoTime();
        lastCpu = SYSTEM.getProcessCpuTime();
    }

    private Step pull(TubeSingleSessionFactory factory, ConsumerConfig config) throws Exception {
        PullMessageConsumer consumer = factory.createPullConsumer(config);
        consumer.subscribe(lines.text("topic", null), null);
        consumer.completeSubscribe();
        return () -> {
            ConsumerResult result = consumer.getMessage();
            if (result.isSuccess()) {
                got(result.getMessageList());
                consumer.confirmConsume(result.getConfirmContext(), true);
            }
            return result.isSuccess();
        };
    }

    private Step balance(TubeSingleSessionFactory factory, ConsumerConfig config) throws Exception {
        ClientBalanceConsumer consumer = factory.createBalanceConsumer(config);
        Map<String, TreeSet<String>> topics = new TreeMap<>();
        topics.put(lines.text("topic", null), new TreeSet<>());
        ProcessResult told = new ProcessResult();
        QueryMetaResult meta = new QueryMetaResult();
        if (!consumer.start(topics, 1, 0, told) || !consumer.getPartitionMetaInfo(meta)) {
            throw new IllegalStateException(told.getErrMsg() + " " + meta.getErrMsg());
        }
        for (String key : meta.getPartStatusMap().keySet()) {
            if (!consumer.connect2Partition(key, 0, told)) {
                throw new IllegalStateException(told.getErrMsg());
            }
        }
        return () -> {
            ConsumeResult result = new ConsumeResult();
            boolean there = consumer.getMessage(result);
            if (there) {
                got(result.getMessageList());
                consumer.confirmConsume(result.getConfirmContext(), true, new ConfirmResult());
            }
            return there;
        };
    }
}
