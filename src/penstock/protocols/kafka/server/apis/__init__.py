"""Handlers by topic: one function per API, as listed in `handlers`."""
