"""PCIe trees: congestion factors of concurrent transfers (Martinasso et al., SC16)."""
