"""Figures of the PCIe study."""
