"""Transports: asyncio, blocking and in-memory channels for clients; the listener and the runtime of a node.

Import the module you need. Nothing is re-exported, so that a blocking reader never loads asyncio.
"""
