import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * Counts --bootstrap --application --state --from --to [--name=value of any option of Streams]: an instance of a Kafka Streams
 * application that counts words. Words are values and come in any partition, so they go through a repartition topic;
 * counts lie in memory, and in a changelog. It says its state (state), what it works at (holding: task ids), and of what
 * it dies (error).
 */
public final class Counts {
    public static void main(String[] args) {
        Options told = new Options(args);
        KafkaStreams streams = new KafkaStreams(topology(told), new StreamsConfig(config(told)));
        streams.setStateListener((now, before) -> Lines.line("event", "state", "state", now.name()));
        streams.setUncaughtExceptionHandler(error -> {
            Throwable cause = error.getCause() == null ? error : error.getCause();
            Lines.line("event", "error", "kind", cause.getClass().getSimpleName(), "why", "" + cause.getMessage());
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        Lines.line("event", "ready");
        streams.start();
        List<String> before = new ArrayList<>();
        while (Options.wanted() && !streams.state().hasCompletedShutdown()) {
            before = tell(streams, before);
            pause();
        }
        streams.close(Duration.ofSeconds(15));
        Lines.line("event", "closed");
        Options.done();
    }

    private static Map<String, Object> config(Options told) {
        Map<String, Object> config = Options.row(
            StreamsConfig.APPLICATION_ID_CONFIG, told.text("application", ""),
            StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, told.text("bootstrap", ""),
            StreamsConfig.STATE_DIR_CONFIG, told.text("state", ""),
            StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, "200",
            StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, "0",
            StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        told.options.forEach((name, value) -> {
            if (name.contains(".")) {
                config.put(name, value);
            }
        });
        return config;
    }

    private static Topology topology(Options told) {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> words =
            builder.stream(told.text("from", ""), Consumed.with(Serdes.String(), Serdes.String()));
        Materialized<String, Long, KeyValueStore<Bytes, byte[]>> counts =
            Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("counts"))
                .withKeySerde(Serdes.String())
                .withValueSerde(Serdes.Long());
        words.groupBy((key, word) -> word, Grouped.with("words", Serdes.String(), Serdes.String()))
            .count(counts)
            .toStream()
            .mapValues(count -> "" + count)
            .to(told.text("to", ""), Produced.with(Serdes.String(), Serdes.String()));
        return builder.build();
    }

    private static List<String> tell(KafkaStreams streams, List<String> before) {
        TreeSet<String> tasks = new TreeSet<>();
        streams.metadataForLocalThreads().forEach(
            thread -> thread.activeTasks().forEach(task -> tasks.add(task.taskId().toString())));
        List<String> now = new ArrayList<>(tasks);
        if (!now.equals(before)) {
            Lines.line("event", "holding", "partitions", now);
        }
        return now;
    }

    private static void pause() {
        try {
            Thread.sleep(50);
        } catch (InterruptedException gaveUp) {
            Thread.currentThread().interrupt();
        }
    }
}
