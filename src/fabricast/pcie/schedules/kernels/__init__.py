"""Compiled kernels for schedules; arguments and results are arrays."""
