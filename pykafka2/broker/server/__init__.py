"""The request path: connections, processors, request channel, links of brokers (Kafka's SocketServer)."""
