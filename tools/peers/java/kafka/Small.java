import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Small --bootstrap A --topic T --kind send|flying|read|commit --count N --warm M [--size BYTES] [--producers 1]
 *
 * Records one at a time, by a client that is warm: M of them that nobody times, then N. send: each is waited for, by as
 * many producers as are wanted, a thread each; flying: a hundred without an answer at any time; commit: a member of a
 * group, new each time, that commits each record before it takes the next one; read: partition 0 from its beginning,
 * where M records are written by this program itself before it says ready, and N by somebody else after that, with the
 * machine's monotonic clock in their first twenty bytes. Lines: ready (read), begun, measured. Of readers the first
 * fifth of N is not counted. It ends with its standard input, so that it does not outlive who started it.
 */
public final class Small {
    private static final OperatingSystemMXBean SYSTEM = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    private static final int FLYING = 100;
    private static final Duration SILENCE = Duration.ofSeconds(20);

    private final Options told;
    private final String topic;
    private final int count;
    private final int warm;
    private long begun;
    private long cpu;

    private Small(Options told) {
        this.told = told;
        topic = told.text("topic", null);
        count = (int) told.number("count", 0);
        warm = (int) told.number("warm", 0);
    }

    public static void main(String[] args) throws Exception {
        Options told = new Options(args);
        Options.endWithInput();
        Small small = new Small(told);
        switch (told.text("kind", "send")) {
            case "send" -> small.send();
            case "flying" -> small.fly();
            case "read" -> small.read();
            case "commit" -> small.commit();
            default -> throw new IllegalArgumentException(told.text("kind", ""));
        }
        Options.done();
    }

    private void begin() {
        Lines.line("event", "begun");
        cpu = SYSTEM.getProcessCpuTime();
        begun = System.nanoTime();
    }

    private void tell(Object... more) {
        long seconds = System.nanoTime() - begun;
        long spent = SYSTEM.getProcessCpuTime() - cpu;
        List<Object> pairs = new ArrayList<>(List.of("event", "measured", "seconds", seconds / 1e9, "cpu_s", spent / 1e9));
        pairs.addAll(List.of(more));
        Lines.line(pairs.toArray());
    }

    private KafkaProducer<byte[], byte[]> producer() {
        return new KafkaProducer<>(Options.row(
            "bootstrap.servers", told.text("bootstrap", null),
            "acks", "all",
            "enable.idempotence", "true",
            "linger.ms", "0",
            "key.serializer", ByteArraySerializer.class,
            "value.serializer", ByteArraySerializer.class));
    }

    private KafkaConsumer<byte[], byte[]> consumer(Object... more) {
        Map<String, Object> config = Options.row(more);
        config.putAll(Options.row(
            "bootstrap.servers", told.text("bootstrap", null),
            "enable.auto.commit", "false",
            "auto.offset.reset", "earliest",
            "key.deserializer", ByteArrayDeserializer.class,
            "value.deserializer", ByteArrayDeserializer.class));
        return new KafkaConsumer<>(config);
    }

    private byte[] value() {
        byte[] value = new byte[(int) told.number("size", 100)];
        Arrays.fill(value, (byte) 'x');
        return value;
    }

    private void send() throws Exception {
        List<KafkaProducer<byte[], byte[]>> producers = new ArrayList<>();
        for (int i = 0; i < told.number("producers", 1); i++) {
            producers.add(producer());
        }
        waitFor(producers, warm);
        begin();
        waitFor(producers, count);
        tell();
        producers.forEach(each -> each.close());
    }

    /** So many records in all, each waited for by the thread of its producer. */
    private void waitFor(List<KafkaProducer<byte[], byte[]>> producers, int records) throws Exception {
        if (producers.size() == 1) {
            sendEach(producers.get(0), records);
            return;
        }
        List<Exception> troubles = java.util.Collections.synchronizedList(new ArrayList<>());
        List<Thread> threads = new ArrayList<>();
        for (KafkaProducer<byte[], byte[]> each : producers) {
            Thread thread = new Thread(() -> {
                try {
                    sendEach(each, records / producers.size());
                } catch (Exception trouble) {
                    troubles.add(trouble);
                }
            });
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) {
            thread.join();
        }
        if (!troubles.isEmpty()) {
            throw troubles.get(0);
        }
    }

    private void sendEach(KafkaProducer<byte[], byte[]> producer, int records) throws Exception {
        byte[] value = value();
        for (int i = 0; i < records; i++) {
            producer.send(new ProducerRecord<>(topic, value)).get();
        }
    }

    private void fly() throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = producer()) {
            sendAhead(producer, warm);
            begin();
            sendAhead(producer, count);
            tell();
        }
    }

    private void sendAhead(KafkaProducer<byte[], byte[]> producer, int records) throws Exception {
        byte[] value = value();
        ArrayDeque<Future<RecordMetadata>> waiting = new ArrayDeque<>();
        for (int i = 0; i < records; i++) {
            if (waiting.size() == FLYING) {
                waiting.remove().get();
            }
            waiting.add(producer.send(new ProducerRecord<>(topic, value)));
        }
        for (Future<RecordMetadata> each : waiting) {
            each.get();
        }
    }

    private void commit() {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer("group.id", topic, "max.poll.records", "1")) {
            consumer.subscribe(List.of(topic));
            commitEach(consumer, warm);
            begin();
            commitEach(consumer, count);
            tell();
        }
    }

    private static void commitEach(KafkaConsumer<byte[], byte[]> consumer, int records) {
        for (int i = 0; i < records; i++) {
            if (consumer.poll(SILENCE).isEmpty()) {
                throw new IllegalStateException(i + " came");
            }
            consumer.commitSync();
        }
    }

    private void read() throws Exception {
        TopicPartition place = new TopicPartition(topic, 0);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            consumer.assign(List.of(place));
            consumer.seek(place, 0);
            warmUp(consumer);
            Lines.line("event", "ready");
            follow(consumer);
        }
    }

    /** Records of its own, one by one, as those will come that are timed. */
    private void warmUp(KafkaConsumer<byte[], byte[]> consumer) throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = producer()) {
            for (int i = 0; i < warm; i++) {
                byte[] value = value();
                byte[] stamp = Ages.stamp();
                System.arraycopy(stamp, 0, value, 0, stamp.length);
                producer.send(new ProducerRecord<>(topic, 0, null, value)).get();
                ConsumerRecords<byte[], byte[]> found = consumer.poll(SILENCE);
                if (found.isEmpty()) {
                    throw new IllegalStateException(i + " came");
                }
                found.forEach(each -> Ages.age(each.value()));
            }
        }
    }

    private void follow(KafkaConsumer<byte[], byte[]> consumer) {
        long[] ages = new long[count];
        int at = 0;
        int from = 0;
        while (at < count) {
            ConsumerRecords<byte[], byte[]> found = consumer.poll(SILENCE);
            if (found.isEmpty()) {
                throw new IllegalStateException(at + " came");
            }
            for (ConsumerRecord<byte[], byte[]> each : found) {
                ages[at++] = Ages.age(each.value());
                if (from == 0 && at >= count / 5) {
                    from = at;
                    begin();
                }
            }
        }
        long spent = SYSTEM.getProcessCpuTime() - cpu;
        long[] counted = Arrays.copyOfRange(ages, from, count);
        Arrays.sort(counted);
        tell("p50", Ages.share(counted, 0.5), "p99", Ages.share(counted, 0.99), "p999", Ages.share(counted, 0.999),
            "cpu_us", spent / 1e3 / counted.length);
    }
}
