"""Command line: one module per group of commands."""

from fabricast.cli.main import app, main

__all__ = [
    "app",
    "main",
]
