"""Programs that java_world.py runs: Kafka's tools, Java's clients, Streams, Connect and MirrorMaker."""
