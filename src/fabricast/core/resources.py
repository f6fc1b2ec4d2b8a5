"""Folders of the package data, in the checkout or in the installed package."""

from __future__ import annotations

from pathlib import Path


def _folder(name: str) -> Path:
    package = Path(__file__).parents[1]
    installed = package / "data" / name
    return installed if installed.is_dir() else package.parents[1] / "config" / name


def topologies() -> Path:
    """Return the folder of built-in topologies."""
    return _folder("topologies")


def published() -> Path:
    """Return the folder of published numbers."""
    return _folder("published")


def systems() -> Path:
    """Return the folder of example systems."""
    return _folder("systems")
