"""What all fronts of a node share beside the log."""
