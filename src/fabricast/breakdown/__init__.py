"""Latency breakdown of small messages (Zambre et al., ICPP 2019)."""
