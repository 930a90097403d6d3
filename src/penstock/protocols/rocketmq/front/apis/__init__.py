"""Handlers, one file a family of requests."""
