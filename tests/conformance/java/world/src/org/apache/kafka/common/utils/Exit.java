package org.apache.kafka.common.utils;

/** The two methods that MirrorMaker 4.3.1 calls here; 4.4.0 moved the class as AppInfoParser.java describes. */
public final class Exit {
    public static void exit(int status) {
        org.apache.kafka.common.utils.internals.Exit.exit(status);
    }

    public static void addShutdownHook(String name, Runnable hook) {
        org.apache.kafka.common.utils.internals.Exit.addShutdownHook(name, hook);
    }

    private Exit() {}
}
