"""Handlers: one file a family of methods that change together. Each turns a request into an answer, or refuses."""
