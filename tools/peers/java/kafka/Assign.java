import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * Assign: what the assignors of Kafka's own client make of groups, a JSON line in, a JSON line out.
 *
 * A line: assignor (a class of the client), topics (name to the racks of each partition's copies), members (id, instance,
 * subscription as it stands in JoinGroup). Or: assignor, remember (partitions), generation: the user data that follows.
 */
public final class Assign {
    public static void main(String[] args) throws Exception {
        Lines.line("event", "ready");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String text = in.readLine(); text != null; text = in.readLine()) {
            JsonNode asked = Lines.JSON.readTree(text);
            ConsumerPartitionAssignor assignor = assignor(asked.get("assignor").asText());
            if (asked.has("remember")) {
                remember(assignor, asked);
            } else {
                share(assignor, asked);
            }
        }
    }

    private static ConsumerPartitionAssignor assignor(String name) throws Exception {
        Class<?> found = Class.forName("org.apache.kafka.clients.consumer." + name);
        return (ConsumerPartitionAssignor) found.getDeclaredConstructor().newInstance();
    }

    private static void remember(ConsumerPartitionAssignor assignor, JsonNode asked) {
        List<TopicPartition> had = new ArrayList<>();
        asked.get("remember").forEach(each -> had.add(new TopicPartition(each.get(0).asText(), each.get(1).asInt())));
        int generation = asked.get("generation").asInt();
        assignor.onAssignment(new Assignment(had), new ConsumerGroupMetadata("g", generation, "m", Optional.empty()));
        ByteBuffer told = assignor.subscriptionUserData(Set.of("t"));
        byte[] bytes = new byte[told.remaining()];
        told.get(bytes);
        Lines.line("event", "remembered", "body", Base64.getEncoder().encodeToString(bytes));
    }

    private static void share(ConsumerPartitionAssignor assignor, JsonNode asked) {
        Map<String, Subscription> members = new HashMap<>();
        asked.get("members").forEach(each -> {
            byte[] told = Base64.getDecoder().decode(each.get("subscription").asText());
            Subscription subscription = ConsumerProtocol.deserializeSubscription(ByteBuffer.wrap(told));
            JsonNode instance = each.get("instance");
            subscription.setGroupInstanceId(instance.isNull() ? Optional.empty() : Optional.of(instance.asText()));
            members.put(each.get("id").asText(), subscription);
        });
        Map<String, Assignment> shares =
            assignor.assign(cluster(asked.get("topics")), new GroupSubscription(members)).groupAssignment();
        Map<String, List<Object>> shown = new TreeMap<>();
        shares.forEach((member, share) -> {
            List<Object> partitions = new ArrayList<>();
            share.partitions().forEach(each -> partitions.add(List.of(each.topic(), each.partition())));
            shown.put(member, partitions);
        });
        Lines.line("event", "shares", "shares", shown);
    }

    private static Cluster cluster(JsonNode topics) {
        List<PartitionInfo> partitions = new ArrayList<>();
        topics.fields().forEachRemaining(topic -> {
            int number = 0;
            for (JsonNode racks : topic.getValue()) {
                List<Node> copies = new ArrayList<>();
                for (JsonNode rack : racks) {
                    copies.add(new Node(copies.size() + 1, "h", 1, rack.asText()));
                }
                if (copies.isEmpty()) {
                    copies.add(new Node(1, "h", 1));
                }
                Node[] nodes = copies.toArray(new Node[0]);
                partitions.add(new PartitionInfo(topic.getKey(), number++, null, nodes, nodes));
            }
        });
        return new Cluster("c", List.of(), partitions, Set.of(), Set.of());
    }
}
