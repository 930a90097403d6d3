"""Checks the imports against contracts.toml: runs the linter's command, which has no ``python -m`` form."""

import sys

from importlinter.cli import lint_imports_command

if __name__ == "__main__":
    sys.argv = ["lint-imports", "--config", "contracts.toml", *sys.argv[1:]]
    lint_imports_command()
