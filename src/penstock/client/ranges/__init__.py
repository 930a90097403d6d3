"""Records between two offsets, without a group."""
