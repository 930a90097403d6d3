"""Consumers: an engine that fetches, the group's member, positions and commits."""
