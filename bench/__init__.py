"""Speed, as ratios to rivals measured in the same run: scenarios, rivals at their best settings, tables, goals."""
