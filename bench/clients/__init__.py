"""Clients under measurement, ours and the rivals with their best settings: functions that read or write a topic.

Each module imports its library only when one of its cases runs, because a case is a fresh process with nothing else.
"""
