"""Real servers of other projects, started on loopback from Maven jars, for tests/interop and bench.

``maven`` keeps jars in the user's cache, ``jvm`` starts and ends Java processes, then one module per system.
These modules must not talk to servers through penstock, because tests check penstock with them. Fixtures of pytest are
in tests/interop/peers.
"""
