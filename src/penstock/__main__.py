"""``python -m penstock`` is the same as ``penstock``."""

from penstock.cli.entry import main

if __name__ == "__main__":
    main()
