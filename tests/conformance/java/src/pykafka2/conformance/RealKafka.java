package pykafka2.conformance;

import java.io.IOException;
import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.Properties;
import java.util.stream.Stream;
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
        deleteAll(Path.of(args[0]).getParent()); // its owner was killed, or would have killed us and done this
        Runtime.getRuntime().halt(0);
    }

    private static void deleteAll(Path folder) throws IOException {
        try (Stream<Path> paths = Files.walk(folder)) {
            paths.sorted(Comparator.reverseOrder()).forEach(path -> path.toFile().delete());
        }
    }

    private RealKafka() {
    }
}
