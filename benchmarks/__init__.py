"""Benchmarks of speed relative to peers, on the same work in the same run."""
