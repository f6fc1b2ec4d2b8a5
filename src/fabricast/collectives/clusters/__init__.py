"""Collective operations on NVLink nodes and clusters of them."""
