"""Benchmarks: ratios to rivals measured in the same run. Scenarios, rivals at their best settings, tables, goals."""
