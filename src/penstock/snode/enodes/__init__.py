"""Where a node keeps its data: the embedded log."""
