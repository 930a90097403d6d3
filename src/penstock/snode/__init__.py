"""The service node: listeners, services and the enodes behind them; assembly and lifecycle."""
