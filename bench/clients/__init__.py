"""Clients under measurement, ours and the rivals at their best settings: how each reads or writes a topic.

Each module imports its library only when a case of it runs: a case is a fresh process that holds nothing else.
"""
