"""The TubeMQ front: a node that TubeMQ clients take for a master and its broker."""
