"""Shared utilities without file I/O: errors, units, random seeds, number formatting."""
