package pykafka2.conformance;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The metrics of Java's clients after the scripted work of tests/test_java_metrics.py, as JSON.
 *
 * Arguments: bootstrap servers, then the client whose work is done: producer, classic, consumer, share or admin; then
 * the milliseconds that it stays open after that, 0 by default.
 */
final class ClientMetrics {
    private static final Duration POLL = Duration.ofMillis(100);

    private static long pauseMs;

    public static void main(String[] arguments) throws Exception {
        Properties options = new Properties();
        options.put("bootstrap.servers", arguments[0]);
        options.put("client.id", "app");
        pauseMs = arguments.length > 2 ? Long.parseLong(arguments[2]) : 0;
        ArrayNode rows;
        switch (arguments[1]) {
            case "producer":
                rows = produced(options);
                break;
            case "share":
                rows = takenFromQueue(options, "group-share");
                break;
            case "admin":
                rows = administered(options);
                break;
            default:
                options.put("group.protocol", arguments[1]);
                rows = consumed(options, "group-" + arguments[1]);
        }
        System.out.println(rows);
    }

    private static ArrayNode produced(Properties options) throws Exception {
        options.put("linger.ms", "0");
        try (var producer = new KafkaProducer<>(options, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (int number = 0; number < 5; number++) {
                producer.send(new ProducerRecord<>("orders", 1, null, new byte[100])).get();
            }
            for (int number = 0; number < 2; number++) {
                producer.send(new ProducerRecord<>("orders", 0, null, new byte[50])).get();
                producer.send(new ProducerRecord<>("clicks", 0, null, new byte[10])).get();
            }
            producer.flush();
            return rows(producer.metrics());
        }
    }

    private static ArrayNode consumed(Properties options, String group) throws InterruptedException {
        options.put("group.id", group);
        options.put("auto.offset.reset", "earliest");
        options.put("enable.auto.commit", "false");
        options.put("max.poll.records", "3");
        options.put("fetch.max.wait.ms", "50");
        var bytes = new ByteArrayDeserializer();
        try (var consumer = new KafkaConsumer<>(options, bytes, bytes)) {
            consumer.subscribe(List.of("orders"));
            poll(consumer, 7);
            consumer.commitSync();
            consumer.pause(List.of(new TopicPartition("orders", 0)));
            consumer.seek(new TopicPartition("orders", 1), 0);
            poll(consumer, 3);
            for (long left = pauseMs; left > 0; left -= POLL.toMillis()) {
                consumer.poll(POLL);
                Thread.sleep(POLL.toMillis());
            }
            return rows(consumer.metrics());
        }
    }

    private static ArrayNode takenFromQueue(Properties options, String group) throws InterruptedException {
        options.put("group.id", group);
        options.put("fetch.max.wait.ms", "50");
        var bytes = new ByteArrayDeserializer();
        try (var consumer = new KafkaShareConsumer<>(options, bytes, bytes)) {
            consumer.subscribe(List.of("orders"));
            for (int taken = 0; taken < 7; ) {
                taken += consumer.poll(POLL).count();
            }
            consumer.commitSync();
            return rows(consumer.metrics());
        }
    }

    private static void poll(KafkaConsumer<byte[], byte[]> consumer, int wanted) {
        for (int read = 0; read < wanted; ) {
            read += consumer.poll(POLL).count();
        }
    }

    private static ArrayNode administered(Properties options) throws Exception {
        try (Admin admin = Admin.create(options)) {
            admin.createTopics(List.of(new NewTopic("created", 2, (short) 1))).all().get();
            admin.listTopics().names().get();
            admin.describeCluster().nodes().get();
            return rows(admin.metrics());
        }
    }

    private static ArrayNode rows(Map<MetricName, ? extends Metric> metrics) throws InterruptedException {
        Thread.sleep(pauseMs);
        ArrayNode rows = Bridge.JSON.arrayNode();
        for (var entry : metrics.entrySet()) {
            MetricName name = entry.getKey();
            ObjectNode row = rows.addObject();
            row.put("name", name.name());
            row.put("group", name.group());
            ObjectNode tags = row.putObject("tags");
            name.tags().forEach(tags::put);
            Object value = entry.getValue().metricValue();
            if (value instanceof Number number && !Double.isNaN(number.doubleValue())) {
                row.put("value", number.doubleValue());
            } else {
                row.putNull("value");
            }
        }
        return rows;
    }
}
