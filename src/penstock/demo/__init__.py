"""The demo: a year of flights through a wire protocol into Spark, and out as a table and a picture that are checked."""

from penstock.demo.run import main

__all__ = ["main"]
