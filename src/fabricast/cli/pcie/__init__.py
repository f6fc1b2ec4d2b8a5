"""Commands of the PCIe study."""
