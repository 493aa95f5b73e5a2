package pykafka2.conformance;

import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import kafka.server.KafkaConfig;
import kafka.server.KafkaRaftServer;
import kafka.tools.StorageTool;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.Time;

/**
 * Apache Kafka: one node for each properties file, all in this JVM.  Formats their storage, starts, says READY.
 *
 * Formatting and serving in one JVM saves the seconds of a second start, and three nodes in one JVM share its
 * classes and compiled code, as in Apache's own test kit.  The server ends with its stdin, that is with the
 * Python process that started it, however that one ended; its data is temporary, so it just stops.
 */
public final class RealKafka {
    public static void main(String[] args) throws Exception {
        String clusterId = Uuid.randomUuid().toString();
        List<KafkaRaftServer> servers = new ArrayList<>();
        for (String settings : args) {
            servers.add(formatted(settings, clusterId));
        }
        ExecutorService starters = Executors.newFixedThreadPool(args.length);
        List<Future<?>> starting = new ArrayList<>();
        for (KafkaRaftServer server : servers) {
            starting.add(starters.submit(server::startup)); // ends when the broker is registered and unfenced
        }
        try {
            for (Future<?> one : starting) {
                one.get();
            }
        } catch (ExecutionException failure) {
            failure.printStackTrace();
            Runtime.getRuntime().halt(1); // the threads of the nodes that started would keep the JVM alive
        }
        starters.shutdown();
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

    private static KafkaRaftServer formatted(String settings, String clusterId) throws Exception {
        Properties properties = new Properties();
        try (Reader reader = Files.newBufferedReader(Path.of(settings))) {
            properties.load(reader);
        }
        // Directories that a test passes can have a cluster already.
        if (!Files.exists(Path.of(properties.getProperty("log.dirs").split(",")[0], "meta.properties"))) {
            List<String> format = new ArrayList<>(
                List.of("format", "-t", clusterId, "-c", settings, "--ignore-formatted"));
            // Without voters in its settings, a controller begins a quorum whose voters are in the log.
            if (properties.getProperty("controller.quorum.voters").isEmpty()
                    && properties.getProperty("process.roles").contains("controller")) {
                format.add("--standalone");
            }
            int status = StorageTool.execute(format.toArray(new String[0]), System.err);
            if (status != 0) {
                System.exit(status);
            }
        }
        return new KafkaRaftServer(KafkaConfig.fromProps(properties), Time.SYSTEM);
    }

    private RealKafka() {
    }
}
