"""Models of the SC16 paper, their variants and parameters."""
