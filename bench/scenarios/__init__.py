"""Scenarios by name: the measurement of each, and the cases that are compared."""

from bench.scenarios.table import SCENARIOS as SCENARIOS
from bench.scenarios.table import Scenario as Scenario
