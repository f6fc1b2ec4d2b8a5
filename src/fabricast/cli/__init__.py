"""The command line: one module a group of commands."""

from fabricast.cli.main import app, main

__all__ = ["app", "main"]
