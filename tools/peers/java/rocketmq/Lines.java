import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.common.message.MessageClientExt;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.RPCHook;

/** What the drivers share: their options, and one JSON object a line. */
final class Lines extends Options {
    private static final PrintStream OUT = System.out;

    Lines(String[] args) {
        super(args);
        System.setOut(System.err); // the client's own log would come in between
    }

    /** Say so and end. */
    static void closed() {
        line("event", "closed");
        done();
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
        client.setVipChannelEnabled(told("vip"));
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
        synchronized (Lines.class) {
            OUT.println(JSON.toJSONString(row(pairs), SerializerFeature.WriteMapNullValue));
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
