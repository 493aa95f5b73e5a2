package pykafka2.conformance;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.UUID;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.InvalidMetadataException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.DoubleDeserializer;
import org.apache.kafka.common.serialization.DoubleSerializer;
import org.apache.kafka.common.serialization.FloatDeserializer;
import org.apache.kafka.common.serialization.FloatSerializer;
import org.apache.kafka.common.serialization.IntegerDeserializer;
import org.apache.kafka.common.serialization.IntegerSerializer;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.LongSerializer;
import org.apache.kafka.common.serialization.ShortDeserializer;
import org.apache.kafka.common.serialization.ShortSerializer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.serialization.UUIDDeserializer;
import org.apache.kafka.common.serialization.UUIDSerializer;
import org.apache.kafka.common.utils.Utils;

/** What Kafka's classes say about themselves: errors, options, the partitioner's hash, the serializers. */
final class Facts {
    static JsonNode murmur2(JsonNode item) throws IOException {
        return Bridge.JSON.numberNode(Utils.murmur2(item.binaryValue()));
    }

    static JsonNode serialize(JsonNode item) throws IOException {
        JsonNode value = item.get("value");
        byte[] bytes;
        switch (item.get("type").asText()) {
            case "string": bytes = new StringSerializer().serialize("t", value.textValue()); break;
            case "short": bytes = new ShortSerializer().serialize("t", (short) value.intValue()); break;
            case "integer": bytes = new IntegerSerializer().serialize("t", value.intValue()); break;
            case "long": bytes = new LongSerializer().serialize("t", value.longValue()); break;
            case "float": bytes = new FloatSerializer().serialize("t", value.floatValue()); break;
            case "double": bytes = new DoubleSerializer().serialize("t", value.doubleValue()); break;
            case "uuid": bytes = new UUIDSerializer().serialize("t", UUID.fromString(value.asText())); break;
            default: throw new IllegalArgumentException("no serializer for " + item.get("type"));
        }
        return bytes == null ? Bridge.JSON.nullNode() : Bridge.JSON.binaryNode(bytes);
    }

    static JsonNode deserialize(JsonNode item) throws IOException {
        byte[] bytes = Bridge.bytes(item.get("bytes"));
        switch (item.get("type").asText()) {
            case "string": return Bridge.JSON.textNode(new StringDeserializer().deserialize("t", bytes));
            case "short": return Bridge.JSON.numberNode(new ShortDeserializer().deserialize("t", bytes));
            case "integer": return Bridge.JSON.numberNode(new IntegerDeserializer().deserialize("t", bytes));
            case "long": return Bridge.JSON.numberNode(new LongDeserializer().deserialize("t", bytes));
            case "float": return Bridge.JSON.numberNode(new FloatDeserializer().deserialize("t", bytes));
            case "double": return Bridge.JSON.numberNode(new DoubleDeserializer().deserialize("t", bytes));
            case "uuid": return Bridge.JSON.textNode(new UUIDDeserializer().deserialize("t", bytes).toString());
            default: throw new IllegalArgumentException("no deserializer for " + item.get("type"));
        }
    }

    static JsonNode errors(JsonNode item) {
        ArrayNode all = Bridge.JSON.arrayNode();
        for (Errors error : Errors.values()) {
            ApiException exception = error.exception();
            all.addObject()
                .put("code", error.code())
                .put("name", error.name())
                .put("exception", exception == null ? null : exception.getClass().getSimpleName())
                .put("retriable", exception instanceof RetriableException)
                .put("refresh_metadata", exception instanceof InvalidMetadataException);
        }
        return all;
    }

    /** The item is "producer", "consumer" or "admin". */
    static JsonNode options(JsonNode item) {
        ConfigDef definition;
        switch (item.asText()) {
            case "producer": definition = ProducerConfig.configDef(); break;
            case "consumer": definition = ConsumerConfig.configDef(); break;
            case "admin": definition = AdminClientConfig.configDef(); break;
            default: throw new IllegalArgumentException("no options of " + item);
        }
        ArrayNode all = Bridge.JSON.arrayNode();
        for (ConfigDef.ConfigKey key : definition.configKeys().values()) {
            ObjectNode option = all.addObject();
            option.put("name", key.name);
            option.put("type", key.type.name());
            option.put("required", !key.hasDefault());
            option.put("default", key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null);
            option.put("valid", key.validator == null ? null : key.validator.toString());
            option.put("internal", key.internalConfig);
        }
        return all;
    }

    private Facts() {
    }
}
