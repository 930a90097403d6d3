"""A TubeMQ cluster as an enode: see ``README.md`` beside this file."""
