"""Handlers by topic: functions that answer one API each; `handlers` says which."""
