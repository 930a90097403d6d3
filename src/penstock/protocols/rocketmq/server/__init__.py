"""The server side of RocketMQ's protocol: to clients, the node is a name server and its only broker."""
