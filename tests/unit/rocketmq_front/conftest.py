"""Every test of this folder runs near its enode and far from it."""

from tests.unit.distances import distance, pytest_generate_tests

__all__ = ["distance", "pytest_generate_tests"]
