package pykafka2.conformance;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;

/**
 * Apache Kafka's own Java code, driven by the Python tests over stdin and stdout.
 *
 * One line in: {"op": name, "items": [...]}.  One line out: an array with one answer per item, where a
 * failed item is {"failed": "stack trace"}.  The program ends when stdin does, so it never outlives its parent.
 *
 * Classes are loaded by operation: with kafka-clients 3.9.1 on the class path, which has no record classes
 * where 4.x has them, the message operations still work.
 */
public final class Bridge {
    static final JsonNodeFactory JSON = JsonNodeFactory.instance;

    private interface Operation {
        JsonNode apply(JsonNode item) throws Exception;
    }

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err); // a stray print of a library must not end up between two answers
        ObjectMapper mapper = new ObjectMapper();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8), 1 << 20);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode command = mapper.readTree(line);
            Operation operation = operation(command.get("op").asText());
            ArrayNode results = JSON.arrayNode();
            for (JsonNode item : command.get("items")) {
                results.add(attempt(operation, item));
            }
            answers.write(mapper.writeValueAsBytes(results));
            answers.write('\n');
            answers.flush();
        }
        // Producers and consumers left open by a test must not keep the process alive.
        Runtime.getRuntime().halt(0);
    }

    private static JsonNode attempt(Operation operation, JsonNode item) {
        try {
            return operation.apply(item);
        } catch (Throwable problem) {
            StringWriter trace = new StringWriter();
            problem.printStackTrace(new PrintWriter(trace));
            return JSON.objectNode().put("failed", trace.toString());
        }
    }

    private static Operation operation(String name) {
        switch (name) {
            case "json_to_bytes": return MessageBytes::jsonToBytes;
            case "bytes_to_json": return MessageBytes::bytesToJson;
            case "header_versions": return MessageBytes::headerVersions;
            case "build_batch": return RecordBytes::buildBatch;
            case "end_transaction_marker": return RecordBytes::endTransactionMarker;
            case "read_batches": return RecordBytes::readBatches;
            case "assign": return Assignments::assign;
            case "murmur2": return Facts::murmur2;
            case "serialize": return Facts::serialize;
            case "deserialize": return Facts::deserialize;
            case "errors": return Facts::errors;
            case "options": return Facts::options;
            case "create_topic": return ClientIo::createTopic;
            case "produce": return ClientIo::produce;
            case "consume": return ClientIo::consume;
            case "member_step": return Members::step;
            case "transaction_step": return Transactions::step;
            case "tool": return Tools::run;
            case "admin_calls": return AdminCalls::run;
            case "admin_views": return AdminViews::run;
            case "client_case": return ClientCases::run;
            case "features": return BrokerFacts::features;
            case "broker_options": return BrokerFacts::options;
            case "broker_option_values": return BrokerFacts::allowed;
            default: throw new IllegalArgumentException("no operation named " + name);
        }
    }

    static byte[] bytes(JsonNode node) throws java.io.IOException {
        return node == null || node.isNull() ? null : node.binaryValue();
    }

    static ObjectNode failedWith(String code, String message) {
        return JSON.objectNode().put("error", code).put("message", message);
    }

    private Bridge() {
    }
}
