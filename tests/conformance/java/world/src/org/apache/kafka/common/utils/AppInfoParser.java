package org.apache.kafka.common.utils;

/**
 * Where the connectors of 4.3.1 look for Kafka's version: 4.4.0 moved its class to the package "internals".
 *
 * Remove it with Exit.java once the file connectors and MirrorMaker of 4.4 are on Maven Central.
 */
public final class AppInfoParser {
    public static String getVersion() {
        return org.apache.kafka.common.utils.internals.AppInfoParser.getVersion();
    }

    private AppInfoParser() {}
}
