import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import java.lang.reflect.Field;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.inlong.tubemq.client.common.PeerInfo;
import org.apache.inlong.tubemq.client.config.ConsumerConfig;
import org.apache.inlong.tubemq.client.consumer.ConsumePosition;
import org.apache.inlong.tubemq.corebase.Message;
import org.apache.inlong.tubemq.corebase.utils.AddressUtils;

/** What the drivers share: their options, and one JSON object a line. */
final class Lines extends Options {
    private static final Gson GSON = new GsonBuilder().serializeNulls().disableHtmlEscaping().create();

    Lines(String[] args) throws ReflectiveOperationException {
        super(args);
        // The client's own address goes into client ids and requests; it would be that of the first network interface.
        Field own = AddressUtils.class.getDeclaredField("localIPAddress");
        own.setAccessible(true);
        own.set(null, "127.0.0.1");
    }

    /** Say so and end. */
    static void closed() {
        line("event", "closed");
        done();
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
        synchronized (Lines.class) {
            System.out.println(GSON.toJson(row(pairs)));
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
