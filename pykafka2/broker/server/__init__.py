"""The request path: connections, processors, the request channel, handlers (Kafka's SocketServer)."""
