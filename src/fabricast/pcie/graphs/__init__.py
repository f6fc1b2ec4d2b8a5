"""Congestion graphs: sets of copies that compete for PCIe links."""
