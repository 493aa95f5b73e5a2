package pykafka2.conformance;

import com.fasterxml.jackson.databind.JsonNode;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * Kafka's generated messages, through their JsonConverter classes: JSON to bytes and back.
 *
 * An item names the message's Java class ("org.apache.kafka.common.message.FetchRequestData") and version.
 */
final class MessageBytes {
    private static final Map<String, Converter> CONVERTERS = new HashMap<>();

    private static final class Converter {
        final Class<?> message;
        final Method read;
        final Method write;

        Converter(String name) throws ReflectiveOperationException {
            message = Class.forName(name);
            Class<?> converter = Class.forName(name + "JsonConverter");
            read = converter.getMethod("read", JsonNode.class, short.class);
            write = converter.getMethod("write", message, short.class, boolean.class);
        }
    }

    static JsonNode jsonToBytes(JsonNode item) throws Exception {
        short version = (short) item.get("version").asInt();
        Message message = (Message) converter(item).read.invoke(null, item.get("json"), version);
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        if (buffer.hasRemaining()) {
            throw new IllegalStateException("size() promised " + buffer.capacity() + ", wrote " + buffer.position());
        }
        return Bridge.JSON.binaryNode(buffer.array());
    }

    static JsonNode bytesToJson(JsonNode item) throws Exception {
        short version = (short) item.get("version").asInt();
        Converter converter = converter(item);
        Message message = (Message) converter.message.getConstructor().newInstance();
        ByteBuffer buffer = ByteBuffer.wrap(item.get("bytes").binaryValue());
        message.read(new ByteBufferAccessor(buffer), version);
        if (buffer.hasRemaining()) {
            byte[] rest = Arrays.copyOfRange(buffer.array(), buffer.position(), buffer.limit());
            throw new IllegalStateException(rest.length + " bytes left over: " + Arrays.toString(rest));
        }
        return (JsonNode) converter.write.invoke(null, message, version, false); // of records: the size
    }

    /** Which header goes before an API's requests and responses. */
    static JsonNode headerVersions(JsonNode item) {
        ApiKeys api = ApiKeys.forId(item.get("api_key").asInt());
        short version = (short) item.get("version").asInt();
        return Bridge.JSON.objectNode()
            .put("request", api.requestHeaderVersion(version))
            .put("response", api.responseHeaderVersion(version));
    }

    private static Converter converter(JsonNode item) throws ReflectiveOperationException {
        String name = item.get("class").asText();
        Converter known = CONVERTERS.get(name);
        if (known == null) {
            known = new Converter(name);
            CONVERTERS.put(name, known);
        }
        return known;
    }

    private MessageBytes() {
    }
}
