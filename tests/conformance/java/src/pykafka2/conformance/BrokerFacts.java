package pykafka2.conformance;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.common.Feature;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.storage.internals.log.LogConfig;

/** What Kafka's server says about its options.  Apart from Facts, as kafka-clients alone has none of these. */
final class BrokerFacts {
    /** The item is "broker", "topic" or "group"; of a group's option also which of the broker's stands behind it. */
    static JsonNode options(JsonNode item) {
        ConfigDef definition = definition(item.asText());
        ArrayNode all = Bridge.JSON.arrayNode();
        for (ConfigDef.ConfigKey key : definition.configKeys().values()) {
            ObjectNode option = all.addObject();
            option.put("name", key.name);
            option.put("type", key.type.name());
            option.put("required", !key.hasDefault());
            option.put("default", key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null);
            option.put("valid", key.validator == null ? null : key.validator.toString());
            option.put("internal", key.internalConfig);
            if (item.asText().equals("group")) {
                option.put("synonym", GroupConfig.brokerSynonym(key.name).orElse(null));
            }
        }
        return all;
    }

    /** The lowest and highest level in production of each feature. */
    static JsonNode features(JsonNode item) {
        ObjectNode levels = Bridge.JSON.objectNode();
        for (Feature feature : Feature.PRODUCTION_FEATURES) {
            levels.putArray(feature.featureName()).add(feature.minimumProduction()).add(feature.latestProduction());
        }
        levels.putArray(MetadataVersion.FEATURE_NAME)
            .add(MetadataVersion.MINIMUM_VERSION.featureLevel())
            .add(MetadataVersion.latestProduction().featureLevel());
        return levels;
    }

    /** {"kind", "name", "values"} to whether the option takes each text as its value. */
    static JsonNode allowed(JsonNode item) {
        ConfigDef.ConfigKey key = definition(item.get("kind").asText()).configKeys().get(item.get("name").asText());
        ArrayNode answers = Bridge.JSON.arrayNode();
        for (JsonNode value : item.get("values")) {
            answers.add(allows(key, value.asText()));
        }
        return answers;
    }

    private static boolean allows(ConfigDef.ConfigKey key, String value) {
        try {
            Object parsed = ConfigDef.parseType(key.name, value, key.type);
            if (key.validator != null) {
                key.validator.ensureValid(key.name, parsed);
            }
            return true;
        } catch (ConfigException refused) {
            return false;
        }
    }

    private static ConfigDef definition(String kind) {
        switch (kind) {
            case "broker": return KafkaConfig.configDef();
            case "topic": return LogConfig.configDefCopy();
            case "group": return GroupConfig.CONFIG_DEF;
            default: throw new IllegalArgumentException("no options of " + kind);
        }
    }

    private BrokerFacts() {
    }
}
