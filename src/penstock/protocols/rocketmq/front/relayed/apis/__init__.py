"""What the node has a part in itself, one file a family of requests."""
