"""Kafka's wire format: declared messages, the codec that reads and writes them, frames, and record formats."""
