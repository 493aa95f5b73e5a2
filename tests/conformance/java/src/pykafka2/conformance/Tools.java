package pykafka2.conformance;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.common.utils.internals.Exit;

/** Kafka's command-line tools, run in this JVM as a shell would run them: arguments in, output and status out. */
final class Tools {
    private static final long LIMIT_SECONDS = 60;

    /** What Exit.exit becomes: the end of the tool, not of the JVM. */
    private static final class Exited extends Error {
        private static final long serialVersionUID = 1L;

        Exited(int status) {
            super("exit " + status, null, false, false);
        }
    }

    /** {"class", "arguments", "input"} to {"status", "output"}. */
    static JsonNode run(JsonNode item) throws Exception {
        String[] arguments = new String[item.get("arguments").size()];
        for (int i = 0; i < arguments.length; i++) {
            arguments[i] = item.get("arguments").get(i).asText();
        }
        ByteArrayOutputStream output = new ByteArrayOutputStream();
        PrintStream before = System.out;
        PrintStream errors = System.err;
        InputStream input = System.in;
        int[] left = {-1}; // the first exit counts: some tools catch whatever is thrown, and exit again
        Exit.Procedure leave = (status, message) -> {
            left[0] = left[0] < 0 ? status : left[0];
            throw new Exited(status);
        };
        Exit.setExitProcedure(leave);
        Exit.setHaltProcedure(leave);
        // Some tools close, and say the rest, in a hook of the JVM's end: run here what they have added.
        Exit.setShutdownHookAdder((name, hook) -> Runtime.getRuntime().addShutdownHook(new Thread(hook, name)));
        Set<Thread> hooksBefore = hooks();
        PrintStream captured = new PrintStream(output, true, StandardCharsets.UTF_8);
        try {
            System.setOut(captured);
            System.setErr(captured);
            System.setIn(new ByteArrayInputStream(item.path("input").asText("").getBytes(StandardCharsets.UTF_8)));
            String name = item.get("class").asText();
            ended(Class.forName(name.startsWith("kafka.") ? name : "org.apache.kafka.tools." + name)
                .getMethod("main", String[].class), arguments);
        } catch (InvocationTargetException problem) {
            if (!(problem.getCause() instanceof Exited)) {
                throw problem;
            }
        } finally {
            for (Thread hook : hooks()) {
                if (!hooksBefore.contains(hook) && Runtime.getRuntime().removeShutdownHook(hook)) {
                    hook.run();
                }
            }
            System.setOut(before);
            System.setErr(errors);
            System.setIn(input);
        }
        return Bridge.JSON.objectNode().put("status", Math.max(left[0], 0)).put("output", output.toString(StandardCharsets.UTF_8));
    }

    /** Runs main in a thread of its own: a tool that hangs fails its call, and nothing else. */
    private static void ended(Method main, String[] arguments) throws Exception {
        FutureTask<Object> task = new FutureTask<>(() -> main.invoke(null, (Object) arguments));
        Thread thread = new Thread(task, "tool");
        thread.setDaemon(true);
        thread.start();
        try {
            task.get(LIMIT_SECONDS, TimeUnit.SECONDS);
        } catch (ExecutionException problem) {
            throw problem.getCause() instanceof Exception ? (Exception) problem.getCause() : problem;
        } catch (TimeoutException late) {
            StackTraceElement[] where = thread.getStackTrace();
            thread.interrupt();
            throw new IllegalStateException("no end after " + LIMIT_SECONDS + " s, at " + Arrays.toString(where));
        }
    }

    /** The JVM keeps them to itself: Bridge.java's JVM is started with java.lang open to us. */
    private static Set<Thread> hooks() throws ReflectiveOperationException {
        Field field = Class.forName("java.lang.ApplicationShutdownHooks").getDeclaredField("hooks");
        field.setAccessible(true);
        Set<Thread> threads = new HashSet<>();
        for (Object hook : ((Map<?, ?>) field.get(null)).keySet()) {
            threads.add((Thread) hook);
        }
        return threads;
    }

    private Tools() {
    }
}
