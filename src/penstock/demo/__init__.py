"""The demo: a year of flights through three wire protocols into Spark, with a checked result table and a picture."""

from penstock.demo.run import main

__all__ = ["main"]
