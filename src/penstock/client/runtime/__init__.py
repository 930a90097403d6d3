"""Runs an asynchronous client under a synchronous one: the loop's thread, waiting, callbacks, closing."""
