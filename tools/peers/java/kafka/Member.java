import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Member --bootstrap --group --topic --assignors [--instance] [--session] [--protocol consumer] [--by pattern]: a member
 * of a group that commits what it has read, and says what it is given and what is taken from it (assigned, revoked, lost),
 * the generation that it is in (generation), and what it reads (message: its partition and value). By pattern, the topic
 * is one that the broker matches.
 */
public final class Member implements ConsumerRebalanceListener {
    public static void main(String[] args) {
        Options told = new Options(args);
        Map<String, Object> config = Options.row(
            "bootstrap.servers", told.text("bootstrap", ""),
            "group.id", told.text("group", ""),
            "enable.auto.commit", "false",
            "auto.offset.reset", "earliest",
            "key.deserializer", StringDeserializer.class,
            "value.deserializer", StringDeserializer.class);
        if (told.options.containsKey("protocol")) {
            config.put("group.protocol", told.text("protocol", ""));
            config.put("group.remote.assignor", told.text("assignors", ""));
        } else {
            config.put("partition.assignment.strategy", told.text("assignors", ""));
            config.put("session.timeout.ms", told.text("session", "10000"));
            config.put("heartbeat.interval.ms", "300");
        }
        if (told.options.containsKey("instance")) {
            config.put("group.instance.id", told.text("instance", ""));
        }
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(config)) {
            if (told.options.containsKey("by")) {
                consumer.subscribe(new SubscriptionPattern(told.text("topic", "")), new Member());
            } else {
                consumer.subscribe(List.of(told.text("topic", "").split(",")), new Member());
            }
            Lines.line("event", "ready");
            int generation = -1;
            while (Options.wanted()) {
                read(consumer);
                int now = consumer.groupMetadata().generationId();
                if (now != generation) {
                    Lines.line("event", "generation", "number", now);
                    generation = now;
                }
            }
        }
        Lines.line("event", "closed");
        Options.done();
    }

    private static void read(KafkaConsumer<String, String> consumer) {
        ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(100));
        for (ConsumerRecord<String, String> each : records) {
            Lines.line("event", "message", "partition", each.partition(), "value", each.value());
        }
        try {
            if (!records.isEmpty()) {
                consumer.commitSync();
            }
        } catch (RebalanceInProgressException | CommitFailedException later) {
            Lines.line("event", "uncommitted", "why", String.valueOf(later.getMessage()));
        }
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        tell("assigned", partitions);
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        tell("revoked", partitions);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        tell("lost", partitions);
    }

    private static void tell(String event, Collection<TopicPartition> partitions) {
        List<Integer> numbers = new ArrayList<>();
        partitions.forEach(each -> numbers.add(each.partition()));
        Lines.line("event", event, "partitions", numbers);
    }
}
