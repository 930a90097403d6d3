import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Speed --names A --topic T --count N --warm M --kind pull|send|sync [--batch 32] [--size BYTES] [--in-flight 2000]
 * [--threads 1]
 *
 * What the client reaches once it is warm: M messages that nobody times, then N. Pulls go by a thread a queue, from its
 * beginning; sends are asynchronous, or waited for one by one (sync), in several threads of one producer. One line:
 * records, seconds (pulls: from the first answer to the last, without the first), CPU seconds of this JVM in that time,
 * bytes of bodies, seconds from the beginning to the first answer; of pulls and of sends that are waited for also how
 * many ms half of them took at most, 99 of 100, and the slowest.
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
    private final List<Long> took = java.util.Collections.synchronizedList(new ArrayList<>());

    private Speed(Lines lines) {
        this.lines = lines;
    }

    public static void main(String[] args) throws Throwable {
        Lines lines = new Lines(args);
        for (String round : List.of("warm", "count")) {
            Speed speed = new Speed(lines);
            if (!lines.text("kind", "pull").equals("pull")) {
                speed.send(lines.number(round, 0));
            } else {
                speed.pull(lines.number(round, 0));
            }
            if (round.equals("count")) {
                speed.told();
            }
        }
        Lines.closed();
    }

    private void told() {
        Lines.line("event", "measured", "records", records.get() - firstRecords, "seconds", (last - begun) / 1e9,
                "cpu_s", (lastCpu - cpu) / 1e9, "bytes", bytes.get(), "start_s", (begun - born) / 1e9, "failed", failed.get(),
                "p50_ms", tookAtMost(0.5), "p99_ms", tookAtMost(0.99), "max_ms", tookAtMost(1));
    }

    private double tookAtMost(double share) {
        List<Long> sorted = new ArrayList<>(took);
        java.util.Collections.sort(sorted);
        int size = sorted.size();
        return size == 0 ? 0 : sorted.get(Math.min(size - 1, (int) (size * share))) / 1e6;
    }

    private void send(long count) throws Throwable {
        DefaultMQProducer producer = lines.located(new DefaultMQProducer("speed" + System.nanoTime()));
        producer.setInstanceName("speed" + System.nanoTime());
        producer.setSendMsgTimeout(30_000);
        producer.start();
        String topic = lines.text("topic", null);
        byte[] body = new byte[(int) lines.number("size", 100)];
        java.util.Arrays.fill(body, (byte) 'x');
        producer.send(new Message(topic, body));
        born = begun = System.nanoTime();
        cpu = SYSTEM.getProcessCpuTime();
        if (lines.text("kind", "send").equals("sync")) {
            sendWaiting(producer, new Message(topic, body), count);
        } else {
            sendAhead(producer, new Message(topic, body), count);
        }
        last = System.nanoTime();
        lastCpu = SYSTEM.getProcessCpuTime();
        bytes.set(count * body.length);
        producer.shutdown();
    }

    /** Each thread waits for the answer to its send before it sends the next. */
    private void sendWaiting(DefaultMQProducer producer, Message message, long count) throws Throwable {
        Thread[] threads = new Thread[(int) lines.number("threads", 1)];
        for (int i = 0; i < threads.length; i++) {
            long each = count * (i + 1) / threads.length - count * i / threads.length;
            threads[i] = new Thread(() -> {
                for (long sent = 0; sent < each; sent++) {
                    try {
                        long asked = System.nanoTime();
                        producer.send(new Message(message.getTopic(), message.getBody()));
                        took.add(System.nanoTime() - asked);
                        records.incrementAndGet();
                    } catch (Exception trouble) {
                        failed.incrementAndGet();
                    }
                }
            });
            threads[i].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
    }

    private void sendAhead(DefaultMQProducer producer, Message message, long count) throws Throwable {
        int most = (int) lines.number("in-flight", 2000);
        Semaphore room = new Semaphore(most);
        for (long i = 0; i < count; i++) {
            room.acquire();
            producer.send(new Message(message.getTopic(), message.getBody()), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    room.release();
                    records.incrementAndGet();
                }

                @Override
                public void onException(Throwable trouble) {
                    room.release();
                    failed.incrementAndGet();
                }
            });
        }
        room.acquire(most);
    }

    private void pull(long count) throws Throwable {
        DefaultMQPullConsumer consumer = lines.located(new DefaultMQPullConsumer("speed" + System.nanoTime()));
        consumer.setInstanceName("speed" + System.nanoTime());
        born = System.nanoTime();
        consumer.start();
        int batch = (int) lines.number("batch", 32);
        Set<MessageQueue> queues = consumer.fetchSubscribeMessageQueues(lines.text("topic", null));
        List<Thread> threads = new ArrayList<>();
        for (MessageQueue queue : queues) {
            Thread thread = new Thread(() -> {
                try {
                    for (long at = 0; at < count / queues.size();) {
                        long asked = System.nanoTime();
                        PullResult result = consumer.pull(queue, "*", at, batch);
                        took.add(System.nanoTime() - asked);
                        got(result.getMsgFoundList());
                        at = result.getNextBeginOffset();
                    }
                } catch (Exception trouble) {
                    failed.incrementAndGet();
                    Lines.line("event", "error", "text", "" + trouble);
                }
            });
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) {
            thread.join();
        }
        consumer.shutdown();
    }

    private synchronized void got(List<MessageExt> messages) {
        if (messages == null) {
            return;
        }
        if (begun == 0) {
            begun = System.nanoTime();
            cpu = SYSTEM.getProcessCpuTime();
            firstRecords = messages.size();
        }
        long sum = 0;
        for (MessageExt message : messages) {
            sum += message.getBody().length;
        }
        bytes.addAndGet(sum);
        records.addAndGet(messages.size());
        last = System.nanoTime();
        lastCpu = SYSTEM.getProcessCpuTime();
    }
}
