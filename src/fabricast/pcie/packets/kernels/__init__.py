"""Compiled kernels of the packet-level simulator; arguments and results are arrays."""
