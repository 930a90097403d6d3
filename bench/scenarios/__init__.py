"""Scenarios by name: what each measures, and which case is compared with which."""

from bench.scenarios.table import SCENARIOS as SCENARIOS
from bench.scenarios.table import Scenario as Scenario
