"""The master's decisions: groups, who gets what, producers. Pure machines; clock and dice come in as arguments."""
