"""Producers: records are validated, accumulated by partition, and sent."""
