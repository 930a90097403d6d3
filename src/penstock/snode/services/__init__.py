"""What all fronts of a node share besides the log."""
