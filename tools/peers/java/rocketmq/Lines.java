import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.common.message.MessageClientExt;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.RPCHook;

/** What the drivers share: --key value options, one JSON object a line, and an orderly end when they are told to end. */
final class Lines {
    private static final PrintStream OUT = System.out;
    private static final CountDownLatch CLOSED = new CountDownLatch(1);
    private static volatile boolean ending;

    final Map<String, String> options = new LinkedHashMap<>();

    Lines(String[] args) {
        System.setOut(System.err); // the client's own log would come in between
        for (int i = 0; i < args.length; i += 2) {
            options.put(args[i].substring(2), args[i + 1]);
        }
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

    boolean told(String key) {
        return text(key, "no").equals("yes");
    }

    List<String> list(String key) {
        String text = options.getOrDefault(key, "");
        return text.isEmpty() ? new ArrayList<>() : List.of(text.split(","));
    }

    /** Of --user NAME:SECRET, or null. */
    RPCHook signing() {
        String[] user = text("user", "").split(":", 2);
        return user.length < 2 ? null : new AclClientRPCHook(new SessionCredentials(user[0], user[1]));
    }

    /**
     * Where the name servers are, an address that is nobody's, and TLS if it is wanted. Routes are asked for, and brokers
     * told who is there, every second: with Java's 30 s a new group would wait that long for its topic of retries, and a
     * new producer to be asked about a transaction.
     */
    <T extends ClientConfig> T located(T client) {
        client.setNamesrvAddr(text("names", null));
        client.setClientIP("127.0.0.1");
        client.setPollNameServerInterval((int) number("look-ms", 1000));
        client.setHeartbeatBrokerInterval((int) number("heartbeat-ms", 1000));
        client.setUseTLS(told("tls"));
        if (options.containsKey("instance")) {
            client.setInstanceName(text("instance", null));
        }
        return client;
    }

    /** "CLUSTERING" or "BROADCASTING"; the names of these moved to another package with 5.0. */
    static void model(Object consumer, String name) throws ReflectiveOperationException {
        for (Method method : consumer.getClass().getMethods()) {
            if (method.getName().equals("setMessageModel")) {
                method.invoke(consumer, method.getParameterTypes()[0].getField(name).get(null));
            }
        }
    }

    static String name(MessageQueue queue) {
        return queue.getTopic() + ":" + queue.getBrokerName() + ":" + queue.getQueueId();
    }

    static void line(Object... pairs) {
        Map<String, Object> row = new LinkedHashMap<>();
        for (int i = 0; i < pairs.length; i += 2) {
            row.put((String) pairs[i], pairs[i + 1]);
        }
        synchronized (Lines.class) {
            OUT.println(JSON.toJSONString(row, SerializerFeature.WriteMapNullValue));
            OUT.flush();
        }
    }

    static void message(MessageExt message) {
        byte[] body = message.getBody() == null ? new byte[0] : message.getBody();
        line("event", "message", "topic", message.getTopic(), "broker", message.getBrokerName(),
                "queue", message.getQueueId(), "offset", message.getQueueOffset(),
                "body", Base64.getEncoder().encodeToString(body), "id", message.getMsgId(),
                "offset_id", message instanceof MessageClientExt ? ((MessageClientExt) message).getOffsetMsgId() : null,
                "tags", message.getTags(), "keys", message.getKeys(), "properties", message.getProperties(),
                "flag", message.getFlag(), "bits", message.getSysFlag(), "attempt", message.getReconsumeTimes(),
                "born", message.getBornTimestamp(), "stored", message.getStoreTimestamp(),
                "place", message.getCommitLogOffset(), "prepared", message.getPreparedTransactionOffset());
    }
}
