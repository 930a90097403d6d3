import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Push --names A --group G --topics one,two [--tags "A||B" | --sql "n > 3"] [--broadcast yes] [--orderly yes]
 *   [--from first|last|yyyyMMddHHmmss] [--strategy average|circle|hash] [--fail N] [--retry-level N] [--most-retries N]
 *   [--pull N] [--together N] [--threads N] [--max N] [--replies yes] [--user NAME:SECRET] [--tls yes]
 * The push consumer, until N messages or a signal; its first N attempts at each message fail. --replies: it sends
 * "re:" and the body to whoever sent a request. Lines: ready, holding
 * (whenever it changes), message, failed (what it gave back), error, closed.
 */
public final class Push {
    private static final int LOOK_EVERY_MS = 20;

    private final AtomicLong count = new AtomicLong();
    private final long fail;
    private final int retryLevel;
    private DefaultMQProducer replier;

    private Push(Lines lines) {
        fail = lines.number("fail", 0);
        retryLevel = (int) lines.number("retry-level", 0);
    }

    public static void main(String[] args) throws Throwable {
        Lines lines = new Lines(args);
        Push push = new Push(lines);
        DefaultMQPushConsumer consumer = lines.located(new DefaultMQPushConsumer(lines.text("group", null),
                lines.signing(), strategy(lines.text("strategy", "average"))));
        push.configure(consumer, lines);
        if (lines.told("replies")) {
            push.replier = lines.located(new DefaultMQProducer(lines.text("group", null) + "-replies", lines.signing()));
            push.replier.start();
        }
        try {
            for (String topic : lines.list("topics")) {
                if (lines.options.containsKey("sql")) {
                    consumer.subscribe(topic, MessageSelector.bySql(lines.text("sql", null)));
                } else {
                    consumer.subscribe(topic, lines.text("tags", "*"));
                }
            }
            consumer.start();
            Lines.line("event", "ready", "client", consumer.buildMQClientId());
            push.follow(consumer, lines.number("max", Long.MAX_VALUE));
        } catch (Exception refused) {
            Lines.line("event", "error", "text", "" + refused);
        }
        consumer.shutdown();
        if (push.replier != null) {
            push.replier.shutdown();
        }
        Lines.closed();
    }

    private static AllocateMessageQueueStrategy strategy(String name) {
        return Map.of("average", new AllocateMessageQueueAveragely(), "circle", new AllocateMessageQueueAveragelyByCircle(),
                "hash", new AllocateMessageQueueConsistentHash()).get(name);
    }

    private void configure(DefaultMQPushConsumer consumer, Lines lines) throws ReflectiveOperationException {
        String from = lines.text("from", "first");
        if (from.equals("first")) {
            consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        } else if (from.equals("last")) {
            consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET);
        } else {
            consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_TIMESTAMP);
            consumer.setConsumeTimestamp(from);
        }
        Lines.model(consumer, lines.told("broadcast") ? "BROADCASTING" : "CLUSTERING");
        consumer.setMaxReconsumeTimes((int) lines.number("most-retries", -1));
        consumer.setPullBatchSize((int) lines.number("pull", 32));
        consumer.setConsumeMessageBatchMaxSize((int) lines.number("together", 1));
        consumer.setConsumeThreadMin((int) lines.number("threads", 4));
        consumer.setConsumeThreadMax((int) lines.number("threads", 4));
        consumer.setSuspendCurrentQueueTimeMillis(200);
        if (lines.told("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> takes(messages)
                    ? ConsumeOrderlyStatus.SUCCESS : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT);
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                context.setDelayLevelWhenNextConsume(retryLevel);
                return takes(messages) ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS : ConsumeConcurrentlyStatus.RECONSUME_LATER;
            });
        }
    }

    private boolean takes(List<MessageExt> messages) {
        if (messages.get(0).getReconsumeTimes() < fail) {
            for (MessageExt message : messages) {
                Lines.line("event", "failed", "id", message.getMsgId(), "attempt", message.getReconsumeTimes());
            }
            return false;
        }
        messages.forEach(this::reply);
        messages.forEach(Lines::message);
        count.addAndGet(messages.size());
        return true;
    }

    private void reply(MessageExt message) {
        if (replier == null) {
            return;
        }
        try {
            replier.send(MessageUtil.createReplyMessage(message, ("re:" + new String(message.getBody())).getBytes()));
        } catch (Exception refused) {
            Lines.line("event", "error", "text", "" + refused);
        }
    }

    /** Tells what it holds until there is enough. */
    private void follow(DefaultMQPushConsumer consumer, long most) throws InterruptedException {
        Set<String> held = new TreeSet<>();
        while (Lines.wanted() && count.get() < most) {
            Set<String> now = new TreeSet<>();
            for (MessageQueue queue : consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet()) {
                now.add(Lines.name(queue));
            }
            if (!now.equals(held)) {
                held = now;
                Lines.line("event", "holding", "partitions", held);
            }
            Thread.sleep(LOOK_EVERY_MS);
        }
    }
}
