package pykafka2.conformance;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** The Java producer, consumer and admin client against a broker, ours or Apache's. */
final class ClientIo {
    private static final int TIMEOUT_SECONDS = 30;

    static JsonNode createTopic(JsonNode item) throws Exception {
        NewTopic topic = new NewTopic(
            item.get("topic").asText(),
            Optional.of(item.path("partitions").asInt(1)),
            Optional.of((short) item.path("replication").asInt(1)));
        Map<String, String> configs = new java.util.HashMap<>();
        item.path("configs").properties().forEach(entry -> configs.put(entry.getKey(), entry.getValue().asText()));
        try (Admin admin = Admin.create(properties(item))) {
            admin.createTopics(List.of(topic.configs(configs))).all().get(TIMEOUT_SECONDS, TimeUnit.SECONDS);
        }
        return Bridge.JSON.booleanNode(true);
    }

    /**
     * Sends all records, waits for all, answers the offsets in the order of sending.  With "partition": null the
     * producer chooses each record's partition.
     */
    static JsonNode produce(JsonNode item) throws Exception {
        ArrayNode offsets = Bridge.JSON.arrayNode();
        JsonNode given = item.path("partition");
        Integer partition = given.isNull() ? null : Integer.valueOf(given.asInt(0));
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer =
                 new KafkaProducer<>(properties(item), new ByteArraySerializer(), new ByteArraySerializer())) {
            for (JsonNode record : item.get("records")) {
                JsonNode timestamp = record.path("timestamp");
                sent.add(producer.send(new ProducerRecord<>(
                    item.get("topic").asText(),
                    partition,
                    timestamp.isNumber() ? timestamp.asLong() : null,
                    Bridge.bytes(record.get("key")),
                    Bridge.bytes(record.get("value")),
                    new RecordHeaders(RecordBytes.headers(record.path("headers"))))));
            }
            producer.flush();
            for (Future<RecordMetadata> future : sent) {
                offsets.add(future.get(TIMEOUT_SECONDS, TimeUnit.SECONDS).offset());
            }
        }
        return offsets;
    }

    /** Reads "count" records of one partition from "offset" on, without a group. */
    static JsonNode consume(JsonNode item) throws IOException {
        int count = item.get("count").asInt();
        ArrayNode records = Bridge.JSON.arrayNode();
        TopicPartition partition = new TopicPartition(item.get("topic").asText(), item.path("partition").asInt(0));
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(TIMEOUT_SECONDS);
        try (KafkaConsumer<byte[], byte[]> consumer =
                 new KafkaConsumer<>(properties(item), new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, item.path("offset").asLong(0));
            while (records.size() < count) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("only " + records.size() + " of " + count + " records arrived");
                }
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    records.add(view(record));
                }
            }
        }
        return records;
    }

    private static ObjectNode view(ConsumerRecord<byte[], byte[]> record) {
        ObjectNode view = Bridge.JSON.objectNode();
        view.put("offset", record.offset());
        view.put("timestamp", record.timestamp());
        view.put("timestamp_type", record.timestampType().name);
        view.put("key", record.key());
        view.put("value", record.value());
        view.set("headers", RecordBytes.headers(record.headers().toArray()));
        return view;
    }

    private static Properties properties(JsonNode item) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", item.get("bootstrap_servers").asText());
        item.path("config").properties().forEach(entry -> properties.put(entry.getKey(), entry.getValue().asText()));
        return properties;
    }

    private ClientIo() {
    }
}
