"""The administration over HTTP, as TubeMQ's master and broker have it on their web ports."""
