"""Measured copies: readers of benchmark output, probes, and measurements on GPUs of this machine."""
