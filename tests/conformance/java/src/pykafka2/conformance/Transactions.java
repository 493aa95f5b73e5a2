package pykafka2.conformance;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Transactional producers that live between the calls, by name: one step of one of them a call. */
final class Transactions {
    private static final Map<String, KafkaProducer<byte[], byte[]>> PRODUCERS = new HashMap<>();

    /** Answers "ok", or "fenced" where a newer producer has the transactional id. */
    static JsonNode step(JsonNode item) throws Exception {
        String name = item.get("name").asText();
        try {
            take(name, item.get("step").asText(), item);
        } catch (ProducerFencedException | InvalidProducerEpochException fenced) {
            return Bridge.JSON.textNode("fenced");
        } catch (java.util.concurrent.ExecutionException failed) {
            if (failed.getCause() instanceof ProducerFencedException
                    || failed.getCause() instanceof InvalidProducerEpochException) {
                return Bridge.JSON.textNode("fenced");
            }
            throw failed;
        }
        return Bridge.JSON.textNode("ok");
    }

    private static void take(String name, String step, JsonNode item) throws Exception {
        KafkaProducer<byte[], byte[]> producer = PRODUCERS.get(name);
        switch (step) {
            case "init":
                producer = new KafkaProducer<>(properties(item), new ByteArraySerializer(), new ByteArraySerializer());
                PRODUCERS.put(name, producer);
                producer.initTransactions();
                break;
            case "begin": producer.beginTransaction(); break;
            case "send":
                producer.send(new ProducerRecord<>(
                    item.get("topic").asText(), item.get("partition").asInt(), null, Bridge.bytes(item.get("value"))))
                    .get(30, TimeUnit.SECONDS);
                break;
            case "offset":
                producer.sendOffsetsToTransaction(
                    Map.of(
                        new TopicPartition(item.get("topic").asText(), item.get("partition").asInt()),
                        new OffsetAndMetadata(item.get("offset").asLong())),
                    group(item));
                break;
            case "commit": producer.commitTransaction(); break;
            case "abort": producer.abortTransaction(); break;
            case "close": PRODUCERS.remove(name).close(java.time.Duration.ofSeconds(5)); break;
            default: throw new IllegalArgumentException("no step named " + step);
        }
    }

    /** Of a consumer that has not joined: no generation, no member. */
    private static ConsumerGroupMetadata group(JsonNode item) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", item.get("bootstrap_servers").asText());
        properties.put("group.id", item.get("group").asText());
        try (KafkaConsumer<byte[], byte[]> consumer =
                 new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            return consumer.groupMetadata();
        }
    }

    private static Properties properties(JsonNode item) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", item.get("bootstrap_servers").asText());
        properties.put("transactional.id", item.get("transactional_id").asText());
        return properties;
    }

    private Transactions() {
    }
}
