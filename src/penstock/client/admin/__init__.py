"""Topics, groups and offsets of a cluster."""
