"""Compiled kernels of the engine model; arguments and results are arrays."""
