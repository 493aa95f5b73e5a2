package pykafka2.conformance;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** The Java clients in their corners: one case a call, its answer the same on every broker that is right. */
final class ClientCases {
    private static final long TIMEOUT = TimeUnit.SECONDS.toNanos(25);

    private final String servers;
    private final JsonNode item;
    private final ObjectNode answers = Bridge.JSON.objectNode();

    private ClientCases(JsonNode item) {
        this.item = item;
        this.servers = item.get("bootstrap_servers").asText();
    }

    /** {"bootstrap_servers", "case", and what the case needs} to what it saw. */
    static JsonNode run(JsonNode item) throws Exception {
        ClientCases cases = new ClientCases(item);
        String name = item.get("case").asText();
        switch (name) {
            case "group": cases.group(); break;
            case "pattern": cases.pattern(); break;
            case "times": cases.times(); break;
            case "idempotent": cases.idempotent(); break;
            case "transactions": cases.transactions(); break;
            case "codecs": cases.codecs(); break;
            case "telemetry": cases.telemetry(); break;
            case "bootstrap_again": cases.bootstrapAgain(); break;
            case "rack": cases.rack(); break;
            case "share": cases.share(); break;
            default: throw new IllegalArgumentException("no case named " + name);
        }
        return cases.answers;
    }

    private Properties properties(String... pairs) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", servers);
        properties.put("auto.offset.reset", "earliest");
        properties.put("metadata.max.age.ms", "500");
        properties.put("session.timeout.ms", "10000");
        properties.put("heartbeat.interval.ms", "300");
        for (int i = 0; i < pairs.length; i += 2) {
            properties.put(pairs[i], pairs[i + 1]);
        }
        if ("consumer".equals(properties.get("group.protocol"))) {
            properties.remove("session.timeout.ms");
            properties.remove("heartbeat.interval.ms");
        }
        return properties;
    }

    private KafkaConsumer<String, String> consumer(String... pairs) {
        return new KafkaConsumer<>(properties(pairs), new StringDeserializer(), new StringDeserializer());
    }

    private KafkaProducer<String, String> producer(String... pairs) {
        Properties properties = properties(pairs);
        properties.keySet().removeAll(Set.of("auto.offset.reset", "session.timeout.ms", "heartbeat.interval.ms"));
        return new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
    }

    private void create(String topic, int partitions) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", servers);
        try (Admin admin = Admin.create(properties)) {
            admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 3))).all().get();
        }
    }

    private static void until(String what, BooleanSupplier come) {
        long deadline = System.nanoTime() + TIMEOUT;
        while (!come.getAsBoolean()) {
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("not within time: " + what);
            }
        }
    }

    private static List<ConsumerRecord<String, String>> polled(KafkaConsumer<String, String> consumer) {
        List<ConsumerRecord<String, String>> records = new ArrayList<>();
        consumer.poll(Duration.ofMillis(30)).forEach(records::add);
        return records;
    }

    /** Two members, then one of them again under the same instance id, then alone: who owns what, who read what. */
    private void group() throws Exception {
        String protocol = item.get("protocol").asText();
        boolean named = item.path("static").asBoolean(false);
        String topic = item.get("topic").asText();
        create(topic, 4);
        List<String> shared = new ArrayList<>(List.of("group.id", topic, "group.protocol", protocol));
        if (protocol.equals("classic")) {
            shared.addAll(List.of("partition.assignment.strategy", item.get("assignor").asText()));
        } else if (item.has("assignor")) {
            shared.addAll(List.of("group.remote.assignor", item.get("assignor").asText()));
        }
        List<String> read = new ArrayList<>();
        KafkaConsumer<String, String> first = member(shared, named, 1, topic);
        KafkaConsumer<String, String> second = member(shared, named, 2, topic);
        try (KafkaProducer<String, String> producer = producer()) {
            until("two members share the topic", () -> {
                polled(first).forEach(one -> read.add(one.value()));
                polled(second).forEach(one -> read.add(one.value()));
                return first.assignment().size() == 2 && second.assignment().size() == 2;
            });
            for (int i = 0; i < 100; i++) {
                producer.send(new ProducerRecord<>(topic, i % 4, null, "value " + i)).get();
            }
            until("all is read", () -> {
                polled(first).forEach(one -> read.add(one.value()));
                polled(second).forEach(one -> read.add(one.value()));
                return read.size() >= 100;
            });
            answers.put("read", read.size()).put("different", new TreeSet<>(read).size());
            first.commitSync();
            second.commitSync();
            int generation = second.groupMetadata().generationId();
            Set<TopicPartition> before = new TreeSet<>((a, b) -> a.partition() - b.partition());
            before.addAll(first.assignment());
            answers.put("instance", String.valueOf(second.groupMetadata().groupInstanceId().orElse(null)));
            first.close();
            try (KafkaConsumer<String, String> again = member(shared, named, 1, topic)) {
                until("the member is back", () -> {
                    polled(second);
                    polled(again);
                    return again.assignment().size() == 2 && second.assignment().size() == 2;
                });
                if (named) { // of others the coordinator decides anew, when they come
                    answers.put("same partitions again", again.assignment().equals(before));
                    answers.put("rebalanced by its return", second.groupMetadata().generationId() != generation);
                }
                Map<TopicPartition, OffsetAndMetadata> committed = again.committed(again.assignment());
                answers.put("committed", committed.values().stream().mapToLong(OffsetAndMetadata::offset).sum());
                again.poll(Duration.ofMillis(100));
                answers.put("lag", again.assignment().stream().mapToLong(one -> again.currentLag(one).orElse(-1)).sum());
                again.unsubscribe();
                if (!named) {
                    until("alone", () -> {
                        polled(second);
                        return second.assignment().size() == 4;
                    });
                }
                answers.put("left", second.assignment().size());
            }
        } finally {
            second.close();
        }
    }

    private KafkaConsumer<String, String> member(List<String> shared, boolean named, int number, String topic) {
        List<String> own = new ArrayList<>(shared);
        own.addAll(List.of("client.id", "member-" + number));
        if (named) {
            own.addAll(List.of("group.instance.id", "instance-" + number));
        }
        KafkaConsumer<String, String> consumer = consumer(own.toArray(new String[0]));
        consumer.subscribe(List.of(topic));
        return consumer;
    }

    /** A subscription to a pattern takes in the topic that is made later. */
    private void pattern() throws Exception {
        String topic = item.get("topic").asText();
        String protocol = item.get("protocol").asText();
        create(topic + "-one", 2);
        create(topic + "x-other", 2);
        try (KafkaConsumer<String, String> consumer = consumer("group.id", topic, "group.protocol", protocol)) {
            if (item.path("server").asBoolean(false)) {
                consumer.subscribe(new SubscriptionPattern(topic + "-.*"));
            } else {
                consumer.subscribe(Pattern.compile(topic + "-.*"));
            }
            until("the first topic", () -> polled(consumer).isEmpty() && consumer.assignment().size() == 2);
            create(topic + "-two", 3);
            until("the second topic", () -> polled(consumer).isEmpty() && consumer.assignment().size() == 5);
            answers.set("assigned", Plain.of(consumer.assignment()));
            if (item.path("server").asBoolean(false)) {
                consumer.subscribe(new SubscriptionPattern("(unfinished"));
                try {
                    until("a refusal", () -> !polled(consumer).isEmpty());
                } catch (Exception refused) {
                    answers.set("no pattern", Plain.failure(refused));
                }
            }
        }
    }

    /** Offsets by time, resets by duration and to nowhere. */
    private void times() throws Exception {
        String topic = item.get("topic").asText();
        TopicPartition partition = new TopicPartition(topic, 0);
        long now = System.currentTimeMillis();
        create(topic, 1);
        try (KafkaProducer<String, String> producer = producer()) {
            for (int i = 0; i < 10; i++) {
                producer.send(new ProducerRecord<>(topic, 0, now - 100_000 + i * 10_000, null, "at " + i)).get();
            }
        }
        try (KafkaConsumer<String, String> consumer = consumer("group.id", topic)) {
            consumer.assign(List.of(partition));
            OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(partition, now - 55_000)).get(partition);
            answers.put("by time", found.offset()).put("leader epoch", found.leaderEpoch().orElse(-1)).put("its time", found.timestamp() - now);
            answers.put("of the future", String.valueOf(consumer.offsetsForTimes(Map.of(partition, now + 1)).get(partition)));
            answers.put("first", consumer.beginningOffsets(List.of(partition)).get(partition));
            answers.put("end", consumer.endOffsets(List.of(partition)).get(partition));
            consumer.seek(partition, found.offset());
            List<String> read = new ArrayList<>();
            until("the rest", () -> {
                polled(consumer).forEach(one -> read.add(one.value()));
                return read.size() == 5;
            });
            answers.set("read from there", Plain.of(read));
            consumer.seek(partition, 1_000_000);
            read.clear();
            until("from the start again", () -> {
                polled(consumer).forEach(one -> read.add(one.value()));
                return read.size() == 10;
            });
        }
        try (KafkaConsumer<String, String> consumer = consumer("group.id", topic + "-since", "auto.offset.reset", "by_duration:PT35S")) {
            consumer.assign(List.of(partition));
            List<String> read = new ArrayList<>();
            until("the last ones", () -> {
                polled(consumer).forEach(one -> read.add(one.value()));
                return !read.isEmpty();
            });
            answers.put("by duration", read.get(0));
        }
        try (KafkaConsumer<String, String> consumer = consumer("group.id", topic + "-none", "auto.offset.reset", "none")) {
            consumer.assign(List.of(partition));
            until("a refusal", () -> !polled(consumer).isEmpty());
        } catch (Exception refused) {
            answers.set("no offset", Plain.failure(refused));
        }
    }

    /** Small batches, five requests under way, order kept. */
    private void idempotent() throws Exception {
        String topic = item.get("topic").asText();
        create(topic, 1);
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<String, String> producer = producer("enable.idempotence", "true", "acks", "all",
                "max.in.flight.requests.per.connection", "5", "batch.size", "200", "linger.ms", "0")) {
            for (int i = 0; i < 1500; i++) {
                sent.add(producer.send(new ProducerRecord<>(topic, 0, null, "value " + i)));
            }
        }
        boolean ordered = true;
        for (int i = 0; i < sent.size(); i++) {
            ordered &= sent.get(i).get().offset() == i;
        }
        answers.put("offsets in order", ordered).set("values in order", Plain.of(values(topic, 1500, "read_uncommitted").equals(
            java.util.stream.IntStream.range(0, 1500).mapToObj(i -> "value " + i).toList())));
    }

    private List<String> values(String topic, int count, String isolation) {
        List<String> read = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = consumer("isolation.level", isolation)) {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            until(count + " records", () -> {
                polled(consumer).forEach(one -> read.add(one.value()));
                return read.size() >= count;
            });
            polled(consumer).forEach(one -> read.add(one.value()));
        }
        return read;
    }

    /** Consume, transform, produce with a member's own metadata; then with that of a member that is gone. */
    private void transactions() throws Exception {
        String topic = item.get("topic").asText();
        String protocol = item.get("protocol").asText();
        create(topic, 1);
        create(topic + "-out", 1);
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaProducer<String, String> source = producer()) {
            for (int i = 0; i < 10; i++) {
                source.send(new ProducerRecord<>(topic, 0, null, "in " + i)).get();
            }
        }
        KafkaConsumer<String, String> consumer = consumer("group.id", topic, "group.protocol", protocol, "enable.auto.commit", "false");
        try (KafkaProducer<String, String> producer = producer("transactional.id", topic)) {
            consumer.subscribe(List.of(topic));
            until("input", () -> !polled(consumer).isEmpty());
            producer.initTransactions();
            for (String ending : List.of("abort", "commit")) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic + "-out", 0, null, ending)).get();
                long offset = ending.equals("commit") ? 5 : 3;
                producer.sendOffsetsToTransaction(Map.of(partition, new OffsetAndMetadata(offset, "by " + ending)), consumer.groupMetadata());
                if (ending.equals("abort")) {
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                }
                answers.put("committed after " + ending, String.valueOf(consumer.committed(Set.of(partition)).get(partition)));
            }
            answers.set("read committed", Plain.of(values(topic + "-out", 1, "read_committed")));
            answers.set("read uncommitted", Plain.of(values(topic + "-out", 2, "read_uncommitted")));
            ConsumerGroupMetadata member = consumer.groupMetadata();
            consumer.close();
            try (KafkaConsumer<String, String> next = consumer("group.id", topic, "group.protocol", protocol, "enable.auto.commit", "false")) {
                next.subscribe(List.of(topic));
                until("the next member", () -> polled(next).isEmpty() ? !next.assignment().isEmpty() : true);
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic + "-out", 0, null, "late"));
                try {
                    producer.sendOffsetsToTransaction(Map.of(partition, new OffsetAndMetadata(9)), member);
                    producer.commitTransaction();
                    answers.put("a member that is gone", "commits");
                } catch (Exception refused) {
                    answers.set("a member that is gone", Plain.failure(refused));
                    producer.abortTransaction();
                }
                answers.put("committed at last", next.committed(Set.of(partition)).get(partition).offset());
            }
        }
        try (KafkaProducer<String, String> zombie = producer("transactional.id", topic + "-twice");
             KafkaProducer<String, String> heir = producer("transactional.id", topic + "-twice")) {
            zombie.initTransactions();
            zombie.beginTransaction();
            zombie.send(new ProducerRecord<>(topic + "-out", 0, null, "zombie")).get();
            heir.initTransactions();
            try {
                zombie.send(new ProducerRecord<>(topic + "-out", 0, null, "zombie")).get();
                zombie.commitTransaction();
                answers.put("a zombie", "commits");
            } catch (Exception refused) {
                answers.set("a zombie", Plain.failure(refused));
            }
        }
    }

    /** Each codec at its lowest and highest level; read back. */
    private void codecs() throws Exception {
        String topic = item.get("topic").asText();
        create(topic, 1);
        Map<String, List<String>> levels = new TreeMap<>(Map.of("none", List.of(""), "gzip", List.of("1", "9"), "snappy", List.of(""),
            "lz4", List.of("1", "17"), "zstd", List.of("1", "19")));
        int expected = 0;
        for (Map.Entry<String, List<String>> codec : levels.entrySet()) {
            for (String level : codec.getValue()) {
                Map<String, String> options = new HashMap<>(Map.of("compression.type", codec.getKey(), "linger.ms", "20"));
                if (!level.isEmpty()) {
                    options.put("compression." + codec.getKey() + ".level", level);
                }
                List<String> pairs = new ArrayList<>();
                options.forEach((name, value) -> pairs.addAll(List.of(name, value)));
                try (KafkaProducer<String, String> producer = producer(pairs.toArray(new String[0]))) {
                    for (int i = 0; i < 50; i++) {
                        producer.send(new ProducerRecord<>(topic, 0, null, codec.getKey() + " ".repeat(200) + i));
                    }
                }
                expected += 50;
            }
        }
        List<String> read = values(topic, expected, "read_committed");
        answers.put("read", read.size()).put("different", new TreeSet<>(read).size());
    }

    /** What a client that would push its metrics is told. */
    private void telemetry() throws Exception {
        try (KafkaProducer<String, String> producer = producer("enable.metrics.push", "true")) {
            try {
                answers.put("instance", producer.clientInstanceId(Duration.ofSeconds(3)) != null);
            } catch (Exception refused) {
                answers.set("instance", Plain.failure(refused));
            }
        }
    }

    /** The caller has the broker ask for it meanwhile: the producer goes on. */
    private void bootstrapAgain() throws Exception {
        String topic = item.get("topic").asText();
        create(topic, 1);
        try (KafkaProducer<String, String> producer = producer("client.id", "again", "metadata.max.age.ms", "300", "metadata.recovery.strategy", "rebootstrap",
                "metadata.recovery.rebootstrap.trigger.ms", "500")) {
            for (int i = 0; i < 20; i++) {
                producer.send(new ProducerRecord<>(topic, 0, null, "value " + i)).get(20, TimeUnit.SECONDS);
                TimeUnit.MILLISECONDS.sleep(100);
            }
        } catch (ExecutionException refused) {
            answers.set("send", Plain.failure(refused));
        }
        answers.put("read", values(topic, 20, "read_uncommitted").size());
    }

    /** A consumer of a share group reads, or is told that it cannot. */
    private void share() throws Exception {
        String topic = item.get("topic").asText();
        create(topic, 1);
        Properties properties = new Properties();
        properties.put("bootstrap.servers", servers);
        properties.put("group.id", topic);
        try (KafkaProducer<String, String> producer = producer();
             KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            int[] read = {0};
            until("a record, or a refusal", () -> {
                producer.send(new ProducerRecord<>(topic, 0, null, "value")); // it begins at the end
                read[0] += consumer.poll(Duration.ofMillis(500)).count();
                return read[0] > 0;
            });
            answers.put("share group", "reads");
        } catch (Exception refused) {
            answers.set("share group", Plain.failure(refused));
        }
    }

    /** Brokers in racks: members are given the partitions whose replicas are in their own. */
    private void rack() throws Exception {
        String topic = item.get("topic").asText();
        String protocol = item.get("protocol").asText();
        Properties admins = new Properties();
        admins.put("bootstrap.servers", servers);
        try (Admin admin = Admin.create(admins)) {
            admin.createTopics(List.of(new NewTopic(topic, Map.of(0, List.of(2), 1, List.of(0), 2, List.of(1))))).all().get();
        }
        List<KafkaConsumer<String, String>> members = new ArrayList<>();
        try {
            for (int i = 0; i < 3; i++) {
                List<String> own = new ArrayList<>(List.of("group.id", topic, "group.protocol", protocol, "client.rack", "rack-" + i));
                if (protocol.equals("consumer")) {
                    own.addAll(List.of("group.remote.assignor", "range"));
                }
                KafkaConsumer<String, String> consumer = consumer(own.toArray(new String[0]));
                consumer.subscribe(List.of(topic));
                members.add(consumer);
            }
            until("everybody has one", () -> {
                members.forEach(ClientCases::polled);
                return members.stream().allMatch(one -> one.assignment().size() == 1);
            });
            for (int i = 0; i < 3; i++) {
                answers.set("rack-" + i, protocol.equals("classic") ? Plain.of(members.get(i).assignment()) : Plain.of(1));
            }
        } finally {
            members.forEach(KafkaConsumer::close);
        }
    }
}
