"""RocketMQ's wire format: frames, headers and bodies as declared data, and stored messages."""
