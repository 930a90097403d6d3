"""Kafka's bytes: declared messages by topic, the codec that reads and writes them, frames, record formats."""
