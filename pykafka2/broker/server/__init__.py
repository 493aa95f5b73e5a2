"""The request path: connections, their processors, the request channel, handlers (Kafka's SocketServer)."""
