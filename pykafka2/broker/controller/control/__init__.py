"""Functions over the active controller, one file for each of Kafka's control managers."""
