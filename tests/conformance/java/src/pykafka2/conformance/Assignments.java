package pykafka2.conformance;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.utils.Utils;

/** What Kafka's assignors answer; subscriptions and assignments are bytes, as between members of a group. */
final class Assignments {
    /**
     * {"assignor": "range", "racks": ["a", null], "topics": {"t": [[0, 1], [1]]}, "members": [{"id", "instance_id",
     * "subscription"}]}: racks by broker, brokers by topic and partition.  Answers bytes by member id.
     */
    static JsonNode assign(JsonNode item) throws IOException {
        Map<String, Subscription> subscriptions = new LinkedHashMap<>();
        for (JsonNode member : item.get("members")) {
            Subscription subscription =
                ConsumerProtocol.deserializeSubscription(ByteBuffer.wrap(member.get("subscription").binaryValue()));
            subscription.setGroupInstanceId(Optional.ofNullable(member.get("instance_id").textValue()));
            subscriptions.put(member.get("id").asText(), subscription);
        }
        Map<String, Assignment> assigned = assignor(item.get("assignor").asText())
            .assign(cluster(item), new GroupSubscription(subscriptions)).groupAssignment();
        ObjectNode answer = Bridge.JSON.objectNode();
        assigned.forEach((id, given) -> answer.put(id, Utils.toArray(ConsumerProtocol.serializeAssignment(given))));
        return answer;
    }

    private static Cluster cluster(JsonNode item) {
        List<Node> nodes = new ArrayList<>();
        for (JsonNode rack : item.get("racks")) {
            nodes.add(new Node(nodes.size(), "host", 9092, rack.textValue()));
        }
        List<PartitionInfo> partitions = new ArrayList<>();
        item.get("topics").properties().forEach(topic -> {
            int number = 0;
            for (JsonNode brokers : topic.getValue()) {
                Node[] replicas = new Node[brokers.size()];
                for (int i = 0; i < replicas.length; i++) {
                    replicas[i] = nodes.get(brokers.get(i).asInt());
                }
                Node leader = replicas.length == 0 ? null : replicas[0];
                partitions.add(new PartitionInfo(topic.getKey(), number++, leader, replicas, replicas));
            }
        });
        return new Cluster("cluster", nodes, partitions, Collections.emptySet(), Collections.emptySet());
    }

    /** A new one each time: the sticky ones remember. */
    private static ConsumerPartitionAssignor assignor(String name) {
        switch (name) {
            case "range": return new RangeAssignor();
            case "roundrobin": return new RoundRobinAssignor();
            case "sticky": return new StickyAssignor();
            case "cooperative-sticky": return new CooperativeStickyAssignor();
            default: throw new IllegalArgumentException("no assignor named " + name);
        }
    }

    private Assignments() {
    }
}
