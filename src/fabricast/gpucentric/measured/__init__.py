"""Measurements on a GPU of this machine."""
