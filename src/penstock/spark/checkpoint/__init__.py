"""Converts checkpoints of Spark's own Kafka connector to ours, and back, so that a query can change its source."""

from penstock.spark.checkpoint.command import convert_checkpoint as convert_checkpoint
from penstock.spark.checkpoint.convert import Conversion as Conversion

__all__ = ["Conversion", "convert_checkpoint"]
