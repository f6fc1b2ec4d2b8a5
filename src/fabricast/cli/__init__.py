"""The command line: one module a group of commands."""

from fabricast.cli.main import app, main, run

__all__ = ["app", "main", "run"]
