"""Real servers of other projects, started on loopback from Maven jars, for tests/interop and bench.

``maven`` keeps jars in the user's cache, ``jvm`` starts and ends Java processes, then one module per system.
What must not live here: pytest (fixtures are in tests/interop/peers) and anything that talks through penstock.
"""
