"""Checkpoints of Spark's own Kafka connector as ours, and back, so that a query goes on instead of starting anew."""

from penstock.spark.checkpoint.command import convert_checkpoint as convert_checkpoint
from penstock.spark.checkpoint.convert import Conversion as Conversion

__all__ = ["Conversion", "convert_checkpoint"]
