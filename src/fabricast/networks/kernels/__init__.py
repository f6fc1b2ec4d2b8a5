"""Compiled kernels of networks of switches."""
