package pykafka2.conformance;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.DescribeConsumerGroupsOptions;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

/** What Java's Admin describes of one topic, one group and one transactional id, with the cluster around them. */
final class AdminViews {
    /** {"bootstrap_servers", "topic", "group", "transactional_id", "time"} to {call: answer}. */
    static JsonNode run(JsonNode item) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", item.get("bootstrap_servers").asText());
        String topic = item.get("topic").asText();
        String group = item.get("group").asText();
        String transaction = item.get("transactional_id").asText();
        List<TopicPartition> partitions = List.of(new TopicPartition(topic, 0), new TopicPartition(topic, 1));
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        ObjectNode answers = Bridge.JSON.objectNode();
        try (Admin admin = Admin.create(properties)) {
            answers.set("topics", Plain.of(admin.describeTopics(List.of(topic),
                new DescribeTopicsOptions().includeAuthorizedOperations(true)).allTopicNames()));
            answers.set("earliest", offsets(admin, partitions, OffsetSpec.earliest()));
            answers.set("latest", offsets(admin, partitions, OffsetSpec.latest()));
            answers.set("max_timestamp", offsets(admin, partitions, OffsetSpec.maxTimestamp()));
            answers.set("by_time", offsets(admin, partitions, OffsetSpec.forTimestamp(item.get("time").asLong())));
            answers.set("configs", Plain.of(admin.describeConfigs(List.of(resource),
                new DescribeConfigsOptions().includeSynonyms(true)).all()));
            answers.set("groups", Plain.of(admin.listGroups().all()));
            answers.set("group", Plain.of(admin.describeConsumerGroups(List.of(group),
                new DescribeConsumerGroupsOptions().includeAuthorizedOperations(true)).all()));
            answers.set("offsets", Plain.of(admin.listConsumerGroupOffsets(
                Map.of(group, new ListConsumerGroupOffsetsSpec())).all()));
            answers.set("cluster", Plain.of(admin.describeCluster(
                new DescribeClusterOptions().includeAuthorizedOperations(true).includeFencedBrokers(true))));
            answers.set("features", Plain.of(admin.describeFeatures().featureMetadata()));
            answers.set("quorum", Plain.of(admin.describeMetadataQuorum().quorumInfo()));
            answers.set("log_dirs", Plain.of(admin.describeLogDirs(List.of(0, 1, 2)).allDescriptions()));
            answers.set("producers", Plain.of(admin.describeProducers(partitions).all()));
            answers.set("transactions", Plain.of(admin.listTransactions().all()));
            answers.set("transaction", Plain.of(admin.describeTransactions(List.of(transaction)).all()));
            answers.set("reassignments", Plain.of(admin.listPartitionReassignments().reassignments()));
            answers.set("resources", Plain.of(admin.listConfigResources().all()));
        }
        return answers;
    }

    private static JsonNode offsets(Admin admin, List<TopicPartition> partitions, OffsetSpec spec) {
        Map<TopicPartition, OffsetSpec> specs = new LinkedHashMap<>();
        for (TopicPartition partition : partitions) {
            specs.put(partition, spec);
        }
        return Plain.of(admin.listOffsets(specs, new ListOffsetsOptions(IsolationLevel.READ_COMMITTED)).all());
    }

    private AdminViews() {
    }
}
