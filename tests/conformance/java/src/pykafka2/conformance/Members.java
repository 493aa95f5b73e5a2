package pykafka2.conformance;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Members of consumer groups that stay between two questions: joined, polled, told to commit and to leave.
 *
 * Java's consumers rebalance while they are polled, on the thread that polls; the bridge has one.
 */
final class Members {
    private static final Map<String, KafkaConsumer<byte[], byte[]>> OPEN = new HashMap<>();

    /** {"member": name, "do": join, poll, commit or leave, ...}; after each the partitions it owns. */
    static JsonNode step(JsonNode item) {
        String name = item.get("member").asText();
        ObjectNode answer = Bridge.JSON.objectNode();
        if (item.get("do").asText().equals("join")) {
            OPEN.put(name, joined(item));
        }
        KafkaConsumer<byte[], byte[]> consumer = OPEN.get(name);
        switch (item.get("do").asText()) {
            case "join":
                break;
            case "poll":
                ArrayNode values = answer.putArray("values");
                for (ConsumerRecord<byte[], byte[]> one : consumer.poll(Duration.ofMillis(item.get("ms").asLong()))) {
                    values.add(one.value());
                }
                break;
            case "commit":
                consumer.commitSync();
                break;
            case "leave":
                OPEN.remove(name);
                consumer.close();
                return answer;
            default:
                throw new IllegalArgumentException(item.toString());
        }
        ArrayNode owned = answer.putArray("owned");
        for (TopicPartition one : consumer.assignment()) {
            owned.add(one.partition());
        }
        return answer;
    }

    private static KafkaConsumer<byte[], byte[]> joined(JsonNode item) {
        Properties properties = new Properties();
        item.get("options").properties().forEach(one -> properties.put(one.getKey(), one.getValue().asText()));
        KafkaConsumer<byte[], byte[]> consumer =
            new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.subscribe(List.of(item.get("topic").asText()));
        return consumer;
    }

    private Members() {
    }
}
