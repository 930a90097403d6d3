import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.inlong.tubemq.client.common.PeerInfo;
import org.apache.inlong.tubemq.client.config.ConsumerConfig;
import org.apache.inlong.tubemq.client.consumer.ConsumePosition;
import org.apache.inlong.tubemq.corebase.Message;
import org.apache.inlong.tubemq.corebase.utils.AddressUtils;

/** What the drivers share: --key value options, one JSON object a line, and an orderly end when they are told to end. */
final class Lines {
    private static final Gson GSON = new GsonBuilder().serializeNulls().disableHtmlEscaping().create();
    private static final CountDownLatch CLOSED = new CountDownLatch(1);
    private static volatile boolean ending;

    final Map<String, String> options = new LinkedHashMap<>();

    Lines(String[] args) throws ReflectiveOperationException {
        for (int i = 0; i < args.length; i += 2) {
            options.put(args[i].substring(2), args[i + 1]);
        }
        // The client's own address goes into client ids and requests; it would be that of the first network interface.
        Field own = AddressUtils.class.getDeclaredField("localIPAddress");
        own.setAccessible(true);
        own.set(null, "127.0.0.1");
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            ending = true;
            try {
                CLOSED.await(20, TimeUnit.SECONDS);
            } catch (InterruptedException gaveUp) {
                Thread.currentThread().interrupt();
            }
        }));
    }

    /** False once somebody asked for the end. */
    static boolean wanted() {
        return !ending;
    }

    /** Say so and end, also when it was not a signal that asked for it. */
    static void closed() {
        line("event", "closed");
        CLOSED.countDown();
        System.exit(0);
    }

    String text(String key, String otherwise) {
        return options.getOrDefault(key, otherwise);
    }

    long number(String key, long otherwise) {
        return Long.parseLong(text(key, "" + otherwise));
    }

    List<String> list(String key) {
        String text = options.getOrDefault(key, "");
        return text.isEmpty() ? new ArrayList<>() : List.of(text.split(","));
    }

    /** Of a list key=number,key=number. */
    Map<String, Long> numbers(String key) {
        Map<String, Long> found = new TreeMap<>();
        for (String item : list(key)) {
            int cut = item.lastIndexOf('=');
            found.put(item.substring(0, cut), Long.parseLong(item.substring(cut + 1)));
        }
        return found;
    }

    /** Of --topics one,two@blue;red: topic to filter items. */
    Map<String, TreeSet<String>> topics() {
        Map<String, TreeSet<String>> found = new TreeMap<>();
        for (String item : list("topics")) {
            String[] parts = item.split("@", 2);
            TreeSet<String> filters = new TreeSet<>();
            if (parts.length == 2) {
                filters.addAll(List.of(parts[1].split(";")));
            }
            found.put(parts[0], filters);
        }
        return found;
    }

    ConsumerConfig consumer() {
        ConsumerConfig config = new ConsumerConfig(options.get("masters"), options.get("group"));
        config.setHeartbeatPeriodMs(number("heartbeat", 1000));
        config.setRpcTimeoutMs(number("timeout", 10000));
        config.setPullConsumeReadyWaitPeriodMs(number("ready", 300));
        config.setMsgNotFoundWaitPeriodMs(number("not-found", 100));
        config.setPullProtectConfirmTimeoutMs(number("protect", 60000));
        config.setPullConfirmInLocal(text("confirm", "yes").equals("local"));
        Map<String, ConsumePosition> positions = Map.of("first", ConsumePosition.CONSUMER_FROM_FIRST_OFFSET,
                "latest", ConsumePosition.CONSUMER_FROM_LATEST_OFFSET, "max", ConsumePosition.CONSUMER_FROM_MAX_OFFSET_ALWAYS);
        config.setConsumePosition(positions.get(text("position", "first")));
        return config;
    }

    static void line(Object... pairs) {
        Map<String, Object> row = new LinkedHashMap<>();
        for (int i = 0; i < pairs.length; i += 2) {
            row.put((String) pairs[i], pairs[i + 1]);
        }
        synchronized (Lines.class) {
            System.out.println(GSON.toJson(row));
            System.out.flush();
        }
    }

    /** A batch message by message; "batch" is where the batch began: the wire says no offset of a single message. */
    static int batch(String topic, String partition, PeerInfo peer, List<Message> messages) {
        int place = 0;
        for (Message message : messages) {
            line("event", "message", "topic", topic, "partition", partition, "batch", peer.getCurrOffset(), "place", place++,
                    "body", Base64.getEncoder().encodeToString(message.getData()), "attributes", message.getAttribute(),
                    "filter", message.getMsgType(), "time", message.getMsgTime(), "id", message.getIndexId());
        }
        return place;
    }

    /** Nothing to read just now is no news. */
    static void trouble(int code, String text, String partition) throws InterruptedException {
        if (code != 404 && code != 406 && code != 407 && code != 405) {
            line("event", "error", "code", code, "text", text, "partition", partition);
            Thread.sleep(50);
        }
    }
}
