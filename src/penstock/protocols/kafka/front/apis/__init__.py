"""Handlers: one file an API, or a family of APIs that change together."""
