"""A TubeMQ cluster as an enode: see ``README.md`` in this folder."""
