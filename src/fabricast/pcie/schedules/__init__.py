"""Schedules of halo exchanges: enumeration, evaluation and search."""
