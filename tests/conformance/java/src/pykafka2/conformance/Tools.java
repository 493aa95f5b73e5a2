package pykafka2.conformance;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.utils.Exit;

/** Kafka's command-line tools, run in this JVM as a shell would run them: arguments in, output and status out. */
final class Tools {
    /** What Exit.exit becomes: the end of the tool, not of the JVM. */
    private static final class Exited extends RuntimeException {
        private static final long serialVersionUID = 1L;
        final int status;

        Exited(int status) {
            super("exit " + status, null, false, false);
            this.status = status;
        }
    }

    /** {"class", "arguments"} to {"status", "output"}. */
    static JsonNode run(JsonNode item) throws Exception {
        String[] arguments = new String[item.get("arguments").size()];
        for (int i = 0; i < arguments.length; i++) {
            arguments[i] = item.get("arguments").get(i).asText();
        }
        ByteArrayOutputStream output = new ByteArrayOutputStream();
        PrintStream before = System.out;
        Exit.Procedure leave = (status, message) -> {
            throw new Exited(status);
        };
        Exit.setExitProcedure(leave);
        Exit.setHaltProcedure(leave);
        Exit.setShutdownHookAdder((name, hook) -> { });
        int status = 0;
        try (PrintStream captured = new PrintStream(output, true, StandardCharsets.UTF_8)) {
            System.setOut(captured);
            Class.forName("org.apache.kafka.tools." + item.get("class").asText())
                .getMethod("main", String[].class)
                .invoke(null, (Object) arguments);
        } catch (InvocationTargetException problem) {
            if (!(problem.getCause() instanceof Exited)) {
                throw problem;
            }
            status = ((Exited) problem.getCause()).status;
        } finally {
            System.setOut(before);
        }
        return Bridge.JSON.objectNode().put("status", status).put("output", output.toString(StandardCharsets.UTF_8));
    }

    private Tools() {
    }
}
