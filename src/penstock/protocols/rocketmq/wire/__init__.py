"""What RocketMQ's peers say to each other: frames, messages as declared data, and stored messages."""
