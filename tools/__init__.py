"""What ./dev runs, and starters of real servers for tests and bench. Standard library only; not installed."""
