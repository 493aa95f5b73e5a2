package pykafka2.conformance;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.ApplicationRecoverableException;
import org.apache.kafka.common.errors.InvalidMetadataException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.TransactionAbortableException;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.BooleanDeserializer;
import org.apache.kafka.common.serialization.BooleanSerializer;
import org.apache.kafka.common.serialization.DoubleDeserializer;
import org.apache.kafka.common.serialization.DoubleSerializer;
import org.apache.kafka.common.serialization.FloatDeserializer;
import org.apache.kafka.common.serialization.FloatSerializer;
import org.apache.kafka.common.serialization.IntegerDeserializer;
import org.apache.kafka.common.serialization.IntegerSerializer;
import org.apache.kafka.common.serialization.ListDeserializer;
import org.apache.kafka.common.serialization.ListSerializer;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.LongSerializer;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.common.serialization.Deserializer;
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

    /** {"type", "value"}; a type "list of integer" is Kafka's ListSerializer around the named one. */
    static JsonNode serialize(JsonNode item) throws IOException {
        String type = item.get("type").asText();
        byte[] bytes;
        if (type.startsWith("list of ")) {
            String inner = type.substring("list of ".length());
            List<Object> entries = new ArrayList<>();
            for (JsonNode entry : item.get("value")) {
                entries.add(entry.isNull() ? null : value(inner, entry));
            }
            try (ListSerializer<Object> list = new ListSerializer<>(serializer(inner))) {
                bytes = list.serialize("t", entries);
            }
        } else {
            bytes = serializer(type).serialize("t", value(type, item.get("value")));
        }
        return Bridge.JSON.binaryNode(bytes);
    }

    @SuppressWarnings("unchecked") // the class of a list does not say of what
    static JsonNode deserialize(JsonNode item) throws IOException {
        String type = item.get("type").asText();
        byte[] bytes = Bridge.bytes(item.get("bytes"));
        if (!type.startsWith("list of ")) {
            return Bridge.JSON.pojoNode(printable(deserializer(type).deserialize("t", bytes)));
        }
        ArrayNode entries = Bridge.JSON.arrayNode();
        String inner = type.substring("list of ".length());
        try (ListDeserializer<Object> list = new ListDeserializer<>(ArrayList.class, deserializer(inner))) {
            for (Object entry : list.deserialize("t", bytes)) {
                entries.addPOJO(printable(entry));
            }
        }
        return entries;
    }

    private static Object printable(Object value) {
        return value instanceof UUID ? value.toString() : value;
    }

    private static Object value(String type, JsonNode value) {
        switch (type) {
            case "string": return value.textValue();
            case "boolean": return value.booleanValue();
            case "short": return (short) value.intValue();
            case "integer": return value.intValue();
            case "long": return value.longValue();
            case "float": return value.floatValue();
            case "double": return value.doubleValue();
            case "uuid": return UUID.fromString(value.textValue());
            default: throw new IllegalArgumentException("no value of type " + type);
        }
    }

    @SuppressWarnings("unchecked")
    private static Serializer<Object> serializer(String type) {
        return (Serializer<Object>) plainSerializer(type);
    }

    private static Serializer<?> plainSerializer(String type) {
        switch (type) {
            case "string": return new StringSerializer();
            case "boolean": return new BooleanSerializer();
            case "short": return new ShortSerializer();
            case "integer": return new IntegerSerializer();
            case "long": return new LongSerializer();
            case "float": return new FloatSerializer();
            case "double": return new DoubleSerializer();
            case "uuid": return new UUIDSerializer();
            default: throw new IllegalArgumentException("no serializer of type " + type);
        }
    }

    @SuppressWarnings("unchecked")
    private static Deserializer<Object> deserializer(String type) {
        return (Deserializer<Object>) plainDeserializer(type);
    }

    private static Deserializer<?> plainDeserializer(String type) {
        switch (type) {
            case "string": return new StringDeserializer();
            case "boolean": return new BooleanDeserializer();
            case "short": return new ShortDeserializer();
            case "integer": return new IntegerDeserializer();
            case "long": return new LongDeserializer();
            case "float": return new FloatDeserializer();
            case "double": return new DoubleDeserializer();
            case "uuid": return new UUIDDeserializer();
            default: throw new IllegalArgumentException("no deserializer of type " + type);
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
                .put("refresh_metadata", exception instanceof InvalidMetadataException)
                .put("abortable", exception instanceof TransactionAbortableException)
                .put("application_recoverable", exception instanceof ApplicationRecoverableException);
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
            option.put("importance", key.importance.name());
            option.put("internal", key.internalConfig);
        }
        return all;
    }

    private Facts() {
    }
}
