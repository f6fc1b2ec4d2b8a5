"""The breakdown study: where the nanoseconds of a small message go (Zambre et al., ICPP 2019)."""
