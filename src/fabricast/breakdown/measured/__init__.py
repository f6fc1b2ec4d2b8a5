"""Latency breakdown measurements on the local machine."""
