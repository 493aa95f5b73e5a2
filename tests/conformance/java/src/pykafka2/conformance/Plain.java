package pykafka2.conformance;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.config.ConfigResource;

/**
 * Any object of Kafka's admin client as JSON: what its methods without arguments answer, futures awaited.
 *
 * What differs from run to run is left out or replaced: addresses (a node is its id), ids, hashes.
 */
final class Plain {
    private static final int TIMEOUT_SECONDS = 20;
    private static final int DEPTH = 9;
    private static final Set<String> LEFT_OUT =
        Set.of("hashCode", "toString", "getClass", "notify", "notifyAll", "wait", "clone", "documentation");

    static JsonNode of(Object value) {
        return of(value, DEPTH);
    }

    private static JsonNode of(Object value, int depth) {
        if (value == null) {
            return Bridge.JSON.nullNode();
        } else if (depth == 0) {
            return Bridge.JSON.textNode("...");
        } else if (value instanceof Boolean) {
            return Bridge.JSON.booleanNode((Boolean) value);
        } else if (value instanceof Double || value instanceof Float) {
            return Bridge.JSON.numberNode(((Number) value).doubleValue());
        } else if (value instanceof Number) {
            return Bridge.JSON.numberNode(((Number) value).longValue());
        } else if (value instanceof Future) {
            return awaited((Future<?>) value, depth);
        } else if (value instanceof Throwable) {
            return failure((Throwable) value);
        } else if (value instanceof Optional) {
            return of(((Optional<?>) value).orElse(null), depth - 1);
        } else if (value instanceof OptionalLong) {
            OptionalLong number = (OptionalLong) value;
            return number.isPresent() ? Bridge.JSON.numberNode(number.getAsLong()) : Bridge.JSON.nullNode();
        } else if (value instanceof OptionalInt) {
            OptionalInt number = (OptionalInt) value;
            return number.isPresent() ? Bridge.JSON.numberNode(number.getAsInt()) : Bridge.JSON.nullNode();
        } else if (value instanceof Map) {
            return map((Map<?, ?>) value, depth);
        } else if (value instanceof Collection) {
            return collection((Collection<?>) value, depth);
        } else if (isLeaf(value)) {
            return Bridge.JSON.textNode(name(value));
        }
        return reflected(value, depth);
    }

    /** One answer, or the failure of getting it. */
    static ObjectNode failure(Throwable problem) {
        Throwable cause = problem;
        while ((cause instanceof ExecutionException || cause instanceof InvocationTargetException) && cause.getCause() != null) {
            cause = cause.getCause();
        }
        return Bridge.JSON.objectNode().put("failed_with", cause.getClass().getSimpleName()).put("message", cause.getMessage());
    }

    private static JsonNode awaited(Future<?> future, int depth) {
        try {
            return of(future.get(TIMEOUT_SECONDS, TimeUnit.SECONDS), depth - 1);
        } catch (Exception problem) {
            return failure(problem);
        }
    }

    private static JsonNode map(Map<?, ?> entries, int depth) {
        TreeMap<String, JsonNode> sorted = new TreeMap<>();
        entries.forEach((key, value) -> sorted.put(name(key), of(value, depth - 1)));
        ObjectNode node = Bridge.JSON.objectNode();
        sorted.forEach(node::set);
        return node;
    }

    private static JsonNode collection(Collection<?> entries, int depth) {
        List<JsonNode> nodes = new ArrayList<>();
        for (Object entry : entries) {
            nodes.add(of(entry, depth - 1));
        }
        if (!(entries instanceof List) || nodes.stream().allMatch(JsonNode::isObject)) {
            nodes.sort(Comparator.comparing(JsonNode::toString));
        }
        ArrayNode array = Bridge.JSON.arrayNode();
        nodes.forEach(array::add);
        return array;
    }

    private static boolean isLeaf(Object value) {
        return value instanceof Enum || value instanceof Node || value instanceof TopicPartition || value instanceof Uuid
            || value instanceof TopicPartitionReplica || value instanceof ConfigResource || value instanceof AclOperation
            || !value.getClass().getName().startsWith("org.apache.kafka.");
    }

    private static String name(Object value) {
        if (value instanceof Node) {
            return "node " + ((Node) value).id() + (((Node) value).hasRack() ? " in " + ((Node) value).rack() : "");
        } else if (value instanceof Uuid) {
            return value.equals(Uuid.ZERO_UUID) ? "no uuid" : "a uuid";
        } else if (value instanceof ConfigResource) {
            return ((ConfigResource) value).type() + " " + ((ConfigResource) value).name();
        } else if (value instanceof byte[]) {
            return ((byte[]) value).length + " bytes";
        } else if (value instanceof Enum) {
            return ((Enum<?>) value).name();
        }
        return String.valueOf(value);
    }

    private static JsonNode reflected(Object value, int depth) {
        TreeMap<String, JsonNode> sorted = new TreeMap<>();
        for (Method method : value.getClass().getMethods()) {
            boolean asks = method.getParameterCount() == 0 && method.getReturnType() != void.class
                && !Modifier.isStatic(method.getModifiers()) && !LEFT_OUT.contains(method.getName());
            if (asks) {
                sorted.put(method.getName(), invoked(value, method, depth));
            }
        }
        ObjectNode node = Bridge.JSON.objectNode();
        sorted.forEach(node::set);
        return node;
    }

    private static JsonNode invoked(Object value, Method method, int depth) {
        try {
            method.setAccessible(true);
            return of(method.invoke(value), depth - 1);
        } catch (ReflectiveOperationException problem) {
            return failure(problem);
        }
    }

    private Plain() {
    }
}
