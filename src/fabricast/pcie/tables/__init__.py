"""Database rows that the PCIe study computes."""
