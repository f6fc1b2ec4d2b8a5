"""Collective operations of NCCL on PCIe machines: expected times, limits and better choices."""
