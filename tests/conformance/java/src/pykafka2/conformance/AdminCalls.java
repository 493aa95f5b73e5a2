package pykafka2.conformance;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.UnknownMemberIdException;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Every method of Admin called at least once, on a cluster of three brokers; the answers by the call's name. */
@SuppressWarnings({"deprecation", "removal", "try"})
final class AdminCalls {
    private static final ConfigResource TOPIC = new ConfigResource(ConfigResource.Type.TOPIC, "calls");
    private static final ConfigResource BROKER = new ConfigResource(ConfigResource.Type.BROKER, "1");
    private static final ConfigResource BROKERS = new ConfigResource(ConfigResource.Type.BROKER, "");
    private static final ConfigResource LOGGER = new ConfigResource(ConfigResource.Type.BROKER_LOGGER, "1");
    private static final ConfigResource GROUP = new ConfigResource(ConfigResource.Type.GROUP, "calls-consumer");
    private static final ConfigResource METRICS = new ConfigResource(ConfigResource.Type.CLIENT_METRICS, "calls-metrics");

    private final ObjectNode answers = Bridge.JSON.objectNode();
    private final Set<String> called = new HashSet<>();
    private final Properties properties = new Properties();
    private Admin admin;

    /** {"bootstrap_servers"} to {call: answer}; "methods not called" is to be empty. */
    static JsonNode run(JsonNode item) throws Exception {
        AdminCalls calls = new AdminCalls();
        calls.properties.put("bootstrap.servers", item.get("bootstrap_servers").asText());
        calls.properties.put("default.api.timeout.ms", "10000");
        calls.properties.put("request.timeout.ms", "5000");
        try (Admin real = Admin.create(calls.properties)) {
            calls.admin = (Admin) Proxy.newProxyInstance(Admin.class.getClassLoader(), new Class<?>[] {Admin.class},
                (proxy, method, arguments) -> calls.passed(real, method, arguments));
            calls.topics();
            calls.configs();
            calls.offsets();
            calls.groups();
            calls.transactions();
            calls.cluster();
            calls.security();
            calls.sharesAndStreams();
        }
        TreeSet<String> missing = new TreeSet<>();
        for (Method method : Admin.class.getMethods()) {
            boolean local = Set.of("close", "metrics", "registerMetricForSubscription", "unregisterMetricFromSubscription")
                .contains(method.getName());
            if (Modifier.isAbstract(method.getModifiers()) && !local && !calls.called.contains(method.getName())) {
                missing.add(method.getName());
            }
        }
        calls.answers.set("methods not called", Plain.of(missing));
        return calls.answers;
    }

    private Object passed(Admin real, Method method, Object[] arguments) throws Throwable {
        called.add(method.getName());
        try {
            return method.invoke(real, arguments);
        } catch (InvocationTargetException problem) {
            throw problem.getCause();
        }
    }

    private void call(String name, Callable<Object> question) {
        long started = System.nanoTime();
        try {
            answers.set(name, Plain.of(question.call()));
        } catch (Exception problem) {
            answers.set(name, Plain.failure(problem));
        }
        if (Boolean.getBoolean("pykafka2.slow")) {
            System.err.printf("%s took %d ms%n", name, (System.nanoTime() - started) / 1_000_000);
        }
    }

    private void topics() throws Exception {
        CreateTopicsResult created = admin.createTopics(List.of(
            new NewTopic("calls", 3, (short) 3).configs(Map.of("retention.ms", "3600000")),
            new NewTopic("calls-placed", Map.of(0, List.of(2, 0), 1, List.of(0, 1))),
            new NewTopic("calls-too-wide", 1, (short) 4),
            new NewTopic("calls ?", 1, (short) 1),
            new NewTopic("calls-odd", 1, (short) 1).configs(Map.of("cleanup.policy", "burn"))));
        call("createTopics", () -> created);
        call("createTopics: config", () -> created.config("calls").get().entries().size() > 20);
        call("createTopics: id", () -> created.topicId("calls"));
        call("createTopics: partitions", () -> created.numPartitions("calls-placed"));
        call("createTopics: replicas", () -> created.replicationFactor("calls-placed"));
        call("createTopics: again", () -> admin.createTopics(List.of(new NewTopic("calls", 1, (short) 1))));
        call("createTopics: validate only", () -> admin.createTopics(
            List.of(new NewTopic("calls-thought-of", 2, (short) 2)), new CreateTopicsOptions().validateOnly(true)));
        TimeUnit.MILLISECONDS.sleep(500);
        call("listTopics", () -> admin.listTopics().names().get().stream().filter(name -> name.startsWith("calls")).sorted().toList());
        call("describeTopics", () -> admin.describeTopics(
            TopicCollection.ofTopicNames(List.of("calls-placed", "calls-unknown")), new DescribeTopicsOptions().includeAuthorizedOperations(true)));
        call("describeTopics: a page for each partition", () -> admin.describeTopics(
            TopicCollection.ofTopicNames(List.of("calls-placed")), new DescribeTopicsOptions().partitionSizeLimitPerResponse(1)));
        Uuid id = created.topicId("calls-placed").get();
        call("describeTopics: by id", () -> admin.describeTopics(TopicCollection.ofTopicIds(List.of(id))).allTopicIds().get().get(id));
        call("describeTopics: by an unknown id", () -> admin.describeTopics(TopicCollection.ofTopicIds(List.of(new Uuid(7, 7)))).allTopicIds());
        call("createPartitions", () -> admin.createPartitions(Map.of(
            "calls-placed", NewPartitions.increaseTo(3, List.of(List.of(1, 2))), "calls", NewPartitions.increaseTo(2))));
        call("deleteTopics", () -> admin.deleteTopics(TopicCollection.ofTopicNames(List.of("calls-unknown"))));
        call("deleteTopics: by id", () -> admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all());
        call("deleteTopics: by an unknown id", () -> admin.deleteTopics(TopicCollection.ofTopicIds(List.of(new Uuid(7, 7)))).all());
    }

    private void configs() {
        call("incrementalAlterConfigs: topic", () -> alter(TOPIC, "max.message.bytes", "2000", AlterConfigOp.OpType.SET));
        call("incrementalAlterConfigs: append", () -> alter(TOPIC, "cleanup.policy", "compact", AlterConfigOp.OpType.APPEND));
        call("incrementalAlterConfigs: subtract", () -> alter(TOPIC, "cleanup.policy", "delete", AlterConfigOp.OpType.SUBTRACT));
        call("incrementalAlterConfigs: delete", () -> alter(TOPIC, "cleanup.policy", null, AlterConfigOp.OpType.DELETE));
        call("incrementalAlterConfigs: append to a number", () -> alter(TOPIC, "max.message.bytes", "1", AlterConfigOp.OpType.APPEND));
        call("incrementalAlterConfigs: nonsense", () -> alter(TOPIC, "max.message.bytes", "many", AlterConfigOp.OpType.SET));
        // Before brokers get values of their own: any of them may be asked.
        call("describeConfigs: topic", () -> described(TOPIC));
        call("incrementalAlterConfigs: broker", () -> alter(BROKER, "message.max.bytes", "1048600", AlterConfigOp.OpType.SET));
        call("incrementalAlterConfigs: brokers", () -> alter(BROKERS, "log.retention.ms", "7200000", AlterConfigOp.OpType.SET));
        call("incrementalAlterConfigs: read-only", () -> alter(BROKER, "log.dirs", "/elsewhere", AlterConfigOp.OpType.SET));
        call("incrementalAlterConfigs: logger", () -> alter(LOGGER, "root", "DEBUG", AlterConfigOp.OpType.SET));
        call("incrementalAlterConfigs: logger, delete", () -> alter(LOGGER, "root", null, AlterConfigOp.OpType.DELETE));
        call("incrementalAlterConfigs: group", () -> alter(GROUP, "consumer.session.timeout.ms", "50000", AlterConfigOp.OpType.SET));
        call("incrementalAlterConfigs: metrics", () -> alter(METRICS, "interval.ms", "5000", AlterConfigOp.OpType.SET));
        call("describeConfigs: group", () -> described(GROUP));
        call("describeConfigs: metrics", () -> described(METRICS));
        call("describeConfigs: brokers", () -> described(BROKERS));
        call("describeConfigs: unknown topic", () -> described(new ConfigResource(ConfigResource.Type.TOPIC, "calls-unknown")));
        call("describeConfigs: unknown broker", () -> admin.describeConfigs(List.of(new ConfigResource(ConfigResource.Type.BROKER, "99")), new DescribeConfigsOptions().timeoutMs(400)));
        call("listConfigResources", () -> admin.listConfigResources(Set.of(ConfigResource.Type.GROUP, ConfigResource.Type.CLIENT_METRICS), new ListConfigResourcesOptions()));
        call("listClientMetricsResources", () -> admin.listClientMetricsResources());
        for (ConfigResource one : List.of(BROKER, BROKERS, GROUP, METRICS)) {
            call("incrementalAlterConfigs: as before, " + one, () -> restored(one));
        }
    }

    private Object alter(ConfigResource resource, String name, String value, AlterConfigOp.OpType operation) {
        return admin.incrementalAlterConfigs(Map.of(resource, List.of(new AlterConfigOp(new ConfigEntry(name, value), operation))));
    }

    private Object restored(ConfigResource resource) {
        String name = Map.of(BROKER, "message.max.bytes", BROKERS, "log.retention.ms", GROUP, "consumer.session.timeout.ms", METRICS, "interval.ms")
            .get(resource);
        return alter(resource, name, null, AlterConfigOp.OpType.DELETE);
    }

    /** Entries by name: value, where it comes from, and so on; only where it is no default. */
    private Object described(ConfigResource resource) throws Exception {
        Map<String, ConfigEntry> entries = new TreeMap<>();
        for (ConfigEntry entry : admin.describeConfigs(List.of(resource), new DescribeConfigsOptions().includeSynonyms(true))
                .all().get().get(resource).entries()) {
            if (!entry.isDefault() || resource.type() == ConfigResource.Type.GROUP) {
                entries.put(entry.name(), entry);
            }
        }
        return entries;
    }

    private void offsets() throws Exception {
        TopicPartition partition = new TopicPartition("calls", 0);
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer())) {
            long now = System.currentTimeMillis();
            for (int i = 0; i < 20; i++) {
                producer.send(new ProducerRecord<>("calls", 0, now - 20_000 + (i % 10) * 1000, null, new byte[10])).get();
            }
            call("listOffsets: by time", () -> admin.listOffsets(Map.of(partition, OffsetSpec.forTimestamp(now - 15_500))).all());
            call("listOffsets: of the future", () -> admin.listOffsets(Map.of(partition, OffsetSpec.forTimestamp(now + 1_000_000))).all());
        }
        Map<String, OffsetSpec> specs = new TreeMap<>(Map.of("earliest", OffsetSpec.earliest(), "latest", OffsetSpec.latest(),
            "largest time", OffsetSpec.maxTimestamp(), "local", OffsetSpec.earliestLocal(), "tiered", OffsetSpec.latestTiered(),
            "pending upload", OffsetSpec.earliestPendingUpload()));
        specs.forEach((name, spec) -> call("listOffsets: " + name, () -> admin.listOffsets(Map.of(partition, spec)).all()));
        call("listOffsets: read committed", () -> admin.listOffsets(
            Map.of(partition, OffsetSpec.latest()), new ListOffsetsOptions(IsolationLevel.READ_COMMITTED)).all());
        call("listOffsets: unknown partition", () -> admin.listOffsets(
            Map.of(new TopicPartition("calls", 9), OffsetSpec.latest()), new ListOffsetsOptions().timeoutMs(400)).all());
        call("deleteRecords", () -> admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(5))));
        call("deleteRecords: beyond the end", () -> admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(500))));
        call("listOffsets: earliest, after deleteRecords", () -> admin.listOffsets(Map.of(partition, OffsetSpec.earliest())).all());
    }

    private KafkaConsumer<byte[], byte[]> member(String group, String protocol) throws Exception {
        Properties own = new Properties();
        own.putAll(properties);
        own.put("group.id", group);
        own.put("group.protocol", protocol);
        own.put("group.instance.id", "instance-" + protocol);
        own.put("client.id", "member");
        own.put("auto.offset.reset", "earliest");
        own.put("enable.auto.commit", "false");
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(own, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.subscribe(List.of("calls"));
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
        while (consumer.assignment().size() < 3 && System.nanoTime() < deadline) {
            consumer.poll(Duration.ofMillis(50));
        }
        // Not what was read by chance until now.
        Map<TopicPartition, OffsetAndMetadata> offsets = new TreeMap<>(Comparator.comparing(TopicPartition::partition));
        consumer.assignment().forEach(one -> offsets.put(one, new OffsetAndMetadata(3)));
        consumer.commitSync(offsets);
        return consumer;
    }

    private void groups() throws Exception {
        TopicPartition partition = new TopicPartition("calls", 0);
        Map<TopicPartition, OffsetAndMetadata> offsets = Map.of(partition, new OffsetAndMetadata(7, Optional.of(0), "by hand"));
        List<String> names = List.of("calls-classic", "calls-consumer", "calls-unknown");
        try (KafkaConsumer<byte[], byte[]> classic = member("calls-classic", "classic");
             KafkaConsumer<byte[], byte[]> consumer = member("calls-consumer", "consumer")) {
            call("describeConsumerGroups", () -> admin.describeConsumerGroups(names, new DescribeConsumerGroupsOptions().includeAuthorizedOperations(true)));
            call("describeClassicGroups", () -> admin.describeClassicGroups(names));
            call("listGroups", () -> ours(admin.listGroups().all().get()));
            call("listGroups: of consumers", () -> ours(admin.listGroups(ListGroupsOptions.forConsumerGroups()).all().get()));
            call("listGroups: stable", () -> ours(admin.listGroups(new ListGroupsOptions().inGroupStates(Set.of(GroupState.STABLE))).all().get()));
            call("listGroups: by type", () -> ours(admin.listGroups(new ListGroupsOptions().withTypes(Set.of(GroupType.CONSUMER))).all().get()));
            call("listGroups: by protocol", () -> ours(admin.listGroups(new ListGroupsOptions().withProtocolTypes(Set.of("consumer"))).all().get()));
            call("listConsumerGroups", () -> admin.listConsumerGroups().all().get().stream().map(one -> one.groupId() + " " + one.groupState().orElse(null)
                + " " + one.type().orElse(null)).filter(one -> one.startsWith("calls")).sorted().toList());
            for (String group : names) {
                call("listConsumerGroupOffsets: " + group, () -> admin.listConsumerGroupOffsets(group).all());
                call("alterConsumerGroupOffsets: with members, " + group, () -> admin.alterConsumerGroupOffsets(group, offsets).all());
                call("deleteConsumerGroupOffsets: with members, " + group, () -> admin.deleteConsumerGroupOffsets(group, Set.of(partition)).all());
            }
            call("deleteConsumerGroups: with members", () -> admin.deleteConsumerGroups(names).deletedGroups());
            call("removeMembersFromConsumerGroup: unknown", () -> admin.removeMembersFromConsumerGroup("calls-classic",
                new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("nobody")))).all());
            for (String protocol : List.of("classic", "consumer")) {
                call("removeMembersFromConsumerGroup: " + protocol, () -> admin.removeMembersFromConsumerGroup("calls-" + protocol,
                    new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("instance-" + protocol)))).all());
            }
            call("removeMembersFromConsumerGroup: all", () -> admin.removeMembersFromConsumerGroup("calls-classic", new RemoveMembersFromConsumerGroupOptions()).all());
            call("describeConsumerGroups: one is back", () -> {
                // The member of the new protocol joins again by itself; its close leaves its instance behind.
                long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(10);
                while (System.nanoTime() < deadline
                        && admin.describeConsumerGroups(List.of("calls-consumer")).all().get().get("calls-consumer").members().isEmpty()) {
                    try {
                        consumer.poll(Duration.ofMillis(50));
                    } catch (UnknownMemberIdException removed) {
                        // It asked for its offsets before it learnt that it was removed; it joins again.
                    }
                }
                return admin.describeConsumerGroups(names).describedGroups().get("calls-consumer").get().members().size();
            });
        }
        for (String group : names) {
            call("alterConsumerGroupOffsets: " + group, () -> admin.alterConsumerGroupOffsets(group, offsets).all());
        }
        call("listConsumerGroupOffsets: some, two groups", () -> admin.listConsumerGroupOffsets(Map.of(
            "calls-classic", new ListConsumerGroupOffsetsSpec().topicPartitions(List.of(partition, new TopicPartition("calls", 8))),
            "calls-consumer", new ListConsumerGroupOffsetsSpec()), new ListConsumerGroupOffsetsOptions().requireStable(true)).all());
        call("deleteConsumerGroupOffsets", () -> admin.deleteConsumerGroupOffsets("calls-classic", Set.of(partition, new TopicPartition("calls-x", 0))).partitionResult(partition));
        call("deleteConsumerGroups", () -> admin.deleteConsumerGroups(names).deletedGroups());
        call("deleteConsumerGroups: again", () -> admin.deleteConsumerGroups(names).deletedGroups());
    }

    private static Object ours(ListTransactionsResult result) throws Exception {
        List<TransactionListing> found = new ArrayList<>(result.all().get());
        found.removeIf(one -> !one.transactionalId().startsWith("calls"));
        return found;
    }

    private static Object ours(Collection<GroupListing> listings) {
        List<GroupListing> found = new ArrayList<>(listings);
        found.removeIf(one -> !one.groupId().startsWith("calls"));
        return found;
    }

    private KafkaProducer<byte[], byte[]> transactional(String id) {
        Properties own = new Properties();
        own.putAll(properties);
        own.put("transactional.id", id);
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(own, new ByteArraySerializer(), new ByteArraySerializer());
        producer.initTransactions();
        return producer;
    }

    private void transactions() throws Exception {
        TopicPartition partition = new TopicPartition("calls", 1);
        try (KafkaProducer<byte[], byte[]> open = transactional("calls-open"); KafkaProducer<byte[], byte[]> idle = transactional("calls-idle")) {
            open.beginTransaction();
            open.send(new ProducerRecord<>("calls", 1, null, new byte[3])).get();
            List<String> ids = List.of("calls-open", "calls-idle", "calls-unknown");
            call("describeTransactions", () -> admin.describeTransactions(ids).description("calls-open"));
            call("describeTransactions: idle", () -> admin.describeTransactions(ids).description("calls-idle"));
            call("describeTransactions: unknown", () -> admin.describeTransactions(ids).description("calls-unknown"));
            call("listTransactions", () -> ours(admin.listTransactions()));
            call("listTransactions: ongoing", () -> ours(admin.listTransactions(new ListTransactionsOptions().filterStates(Set.of(TransactionState.ONGOING)))));
            call("listTransactions: by producer", () -> ours(admin.listTransactions(new ListTransactionsOptions().filterProducerIds(Set.of(424242L)))));
            call("listTransactions: long", () -> ours(admin.listTransactions(new ListTransactionsOptions().filterOnDuration(600_000))));
            call("listTransactions: by pattern", () -> ours(admin.listTransactions(new ListTransactionsOptions().filterOnTransactionalIdPattern("calls-o.*"))));
            call("listTransactions: by no pattern", () -> ours(admin.listTransactions(new ListTransactionsOptions().filterOnTransactionalIdPattern("calls-("))));
            call("describeProducers", () -> admin.describeProducers(List.of(partition)).all());
            call("describeProducers: of a follower", () -> admin.describeProducers(List.of(partition), new DescribeProducersOptions().brokerId(follower(partition))).all());
            ProducerState state = admin.describeProducers(List.of(partition)).partitionResult(partition).get().activeProducers().get(0);
            call("abortTransaction: other producer", () -> admin.abortTransaction(new AbortTransactionSpec(partition, state.producerId() + 4242, (short) 0, 0)).all());
            call("abortTransaction", () -> admin.abortTransaction(new AbortTransactionSpec(
                partition, state.producerId(), (short) state.producerEpoch(), state.coordinatorEpoch().orElse(0))).all());
            call("describeProducers: aborted", () -> admin.describeProducers(List.of(partition)).all());
            call("fenceProducers", () -> admin.fenceProducers(ids));
            call("forceTerminateTransaction", () -> admin.forceTerminateTransaction("calls-open"));
            call("forceTerminateTransaction: unknown", () -> admin.forceTerminateTransaction("calls-nobody"));
            call("the fenced producer", () -> {
                idle.beginTransaction();
                idle.send(new ProducerRecord<>("calls", 1, null, new byte[3])).get();
                return "not fenced";
            });
        }
    }

    private int follower(TopicPartition partition) throws Exception {
        var leader = admin.describeTopics(List.of(partition.topic())).allTopicNames().get().get(partition.topic()).partitions().get(partition.partition()).leader();
        return (leader.id() + 1) % 3;
    }

    private void cluster() throws Exception {
        TopicPartition partition = new TopicPartition("calls", 2);
        int leader = (follower(partition) + 2) % 3;
        TopicPartitionReplica replica = new TopicPartitionReplica("calls", 0, 1);
        call("describeCluster", () -> admin.describeCluster(new DescribeClusterOptions().includeAuthorizedOperations(true).includeFencedBrokers(true)).nodes());
        call("describeCluster: operations", () -> admin.describeCluster(new DescribeClusterOptions().includeAuthorizedOperations(true)).authorizedOperations());
        call("electLeaders: preferred", () -> admin.electLeaders(ElectionType.PREFERRED, Set.of(partition, new TopicPartition("calls", 9))));
        call("electLeaders: unclean", () -> admin.electLeaders(ElectionType.UNCLEAN, Set.of(partition)));
        call("electLeaders: all", () -> admin.electLeaders(ElectionType.PREFERRED, null).all());
        call("alterPartitionReassignments", () -> admin.alterPartitionReassignments(Map.of(
            partition, Optional.of(new NewPartitionReassignment(List.of(leader))), new TopicPartition("calls", 9), Optional.of(new NewPartitionReassignment(List.of(0))),
            new TopicPartition("calls", 0), Optional.of(new NewPartitionReassignment(List.of(0, 77))), new TopicPartition("calls", 1), Optional.empty())));
        call("listPartitionReassignments", () -> admin.listPartitionReassignments(Set.of(new TopicPartition("calls", 0))));
        call("alterReplicaLogDirs", () -> admin.alterReplicaLogDirs(Map.of(replica, "/nowhere", new TopicPartitionReplica("calls", 9, 0), "/nowhere")));
        call("alterReplicaLogDirs: not absolute", () -> admin.alterReplicaLogDirs(Map.of(replica, "nowhere")));
        call("describeReplicaLogDirs", () -> admin.describeReplicaLogDirs(List.of(replica, new TopicPartitionReplica("calls", 9, 0))).all().get().get(replica)
            .getCurrentReplicaOffsetLag());
        call("describeLogDirs", () -> admin.describeLogDirs(List.of(0, 1, 2)).allDescriptions().get().values().stream()
            .map(dirs -> dirs.values().iterator().next().error() + " " + dirs.size()).toList());
        call("describeLogDirs: unknown broker", () -> admin.describeLogDirs(List.of(99), new DescribeLogDirsOptions().timeoutMs(400)).allDescriptions());
        call("describeFeatures", () -> admin.describeFeatures().featureMetadata().get());
        call("describeFeatures: of a node", () -> admin.describeFeatures(new DescribeFeaturesOptions().nodeId(1)).featureMetadata().get().finalizedFeatures().get("group.version"));
        call("updateFeatures", () -> admin.updateFeatures(Map.of("group.version", new FeatureUpdate((short) 1, FeatureUpdate.UpgradeType.UPGRADE)), new UpdateFeaturesOptions()));
        call("updateFeatures: unknown", () -> admin.updateFeatures(Map.of("calls.version", new FeatureUpdate((short) 1, FeatureUpdate.UpgradeType.UPGRADE)), new UpdateFeaturesOptions()));
        call("updateFeatures: downgrade, thought of", () -> admin.updateFeatures(
            Map.of("transaction.version", new FeatureUpdate((short) 1, FeatureUpdate.UpgradeType.UPGRADE)), new UpdateFeaturesOptions().validateOnly(true)));
        call("describeMetadataQuorum", () -> admin.describeMetadataQuorum().quorumInfo().get().leaderId() >= 0);
        call("unregisterBroker: unknown", () -> admin.unregisterBroker(99));
        call("unregisterController: unknown", () -> admin.unregisterController(99));
        call("clientInstanceId", () -> admin.clientInstanceId(Duration.ofMillis(300)));
        call("addRaftVoter", () -> admin.addRaftVoter(7, new Uuid(7, 7), Set.of(new RaftVoterEndpoint("CONTROLLER", "127.0.0.1", 9))));
        call("removeRaftVoter", () -> admin.removeRaftVoter(7, new Uuid(7, 7)));
    }

    private void security() {
        AclBinding binding = new AclBinding(new ResourcePattern(ResourceType.TOPIC, "calls", PatternType.LITERAL),
            new AccessControlEntry("User:x", "*", AclOperation.READ, AclPermissionType.ALLOW));
        call("describeAcls", () -> admin.describeAcls(AclBindingFilter.ANY));
        call("createAcls", () -> admin.createAcls(List.of(binding)));
        call("deleteAcls", () -> admin.deleteAcls(List.of(AclBindingFilter.ANY)));
        call("createDelegationToken", () -> admin.createDelegationToken());
        call("renewDelegationToken", () -> admin.renewDelegationToken(new byte[3]));
        call("expireDelegationToken", () -> admin.expireDelegationToken(new byte[3]));
        call("describeDelegationToken", () -> admin.describeDelegationToken());
        call("describeClientQuotas", () -> admin.describeClientQuotas(ClientQuotaFilter.all()));
        call("alterClientQuotas", () -> admin.alterClientQuotas(List.of(new ClientQuotaAlteration(
            new ClientQuotaEntity(Map.of("client-id", "calls")), List.of(new ClientQuotaAlteration.Op("producer_byte_rate", 1e9))))).all());
        call("describeUserScramCredentials", () -> admin.describeUserScramCredentials(List.of("calls")).all());
        call("alterUserScramCredentials", () -> admin.alterUserScramCredentials(List.of(new UserScramCredentialDeletion("calls", ScramMechanism.SCRAM_SHA_256))).all());
    }

    private void sharesAndStreams() {
        List<String> names = List.of("calls-unknown");
        Set<TopicPartition> partitions = Set.of(new TopicPartition("calls", 0));
        call("describeShareGroups", () -> admin.describeShareGroups(names).all());
        call("listShareGroupOffsets", () -> admin.listShareGroupOffsets(Map.of("calls-unknown", new ListShareGroupOffsetsSpec())).all());
        call("alterShareGroupOffsets", () -> admin.alterShareGroupOffsets("calls-unknown", Map.of(new TopicPartition("calls", 0), 1L)).all());
        call("deleteShareGroupOffsets", () -> admin.deleteShareGroupOffsets("calls-unknown", Set.of("calls")).all());
        call("deleteShareGroups", () -> admin.deleteShareGroups(names).all());
        call("describeStreamsGroups", () -> admin.describeStreamsGroups(names).all());
        call("listStreamsGroupOffsets", () -> admin.listStreamsGroupOffsets(Map.of("calls-unknown", new ListStreamsGroupOffsetsSpec())).all());
        call("alterStreamsGroupOffsets", () -> admin.alterStreamsGroupOffsets("calls-unknown", Map.of(new TopicPartition("calls", 0), new OffsetAndMetadata(1))).all());
        call("deleteStreamsGroupOffsets", () -> admin.deleteStreamsGroupOffsets("calls-unknown", partitions).all());
        call("deleteStreamsGroups", () -> admin.deleteStreamsGroups(names).all());
    }

    private AdminCalls() {
    }
}
