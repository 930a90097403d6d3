"""Waiting, timers, locks and limits: all with the clock passed in, so that nothing here does I/O."""
