"""Compiled numba kernels; arrays in, arrays out."""
