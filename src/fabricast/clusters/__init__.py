"""Copies between the GPUs of several nodes: through the node, its network cards and the network."""
