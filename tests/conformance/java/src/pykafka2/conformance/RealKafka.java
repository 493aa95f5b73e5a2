package pykafka2.conformance;

import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;
import kafka.server.KafkaConfig;
import kafka.server.KafkaRaftServer;
import kafka.tools.StorageTool;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.Time;

/**
 * One Apache Kafka, broker and controller in one process: formats its storage, starts, says READY.
 *
 * Formatting and serving in one JVM saves the seconds of a second start.  The server ends with its stdin, that
 * is with the Python process that started it, however that one ended; its data is temporary, so it just stops.
 */
public final class RealKafka {
    public static void main(String[] args) throws Exception {
        Properties properties = new Properties();
        try (Reader reader = Files.newBufferedReader(Path.of(args[0]))) {
            properties.load(reader);
        }
        String[] format = {"format", "-t", Uuid.randomUuid().toString(), "-c", args[0], "--ignore-formatted"};
        int status = StorageTool.execute(format, System.err);
        if (status != 0) {
            System.exit(status);
        }
        KafkaRaftServer server = new KafkaRaftServer(KafkaConfig.fromProps(properties), Time.SYSTEM);
        server.startup(); // returns when the broker is registered and unfenced
        System.out.println("READY");
        System.out.flush();
        while (System.in.read() >= 0) {
            // nothing is ever sent: only the end matters
        }
        // Whoever started it was killed, or would have killed it and removed its data.  Kafka dies loudly when
        // its files go, so a shell removes them afterwards.
        String clean = "while kill -0 \"$0\" 2>/dev/null; do sleep 0.02; done; rm -rf \"$1\"";
        String folder = Path.of(args[0]).toAbsolutePath().getParent().toString();
        new ProcessBuilder("sh", "-c", clean, Long.toString(ProcessHandle.current().pid()), folder).start();
        Runtime.getRuntime().halt(0);
    }

    private RealKafka() {
    }
}
