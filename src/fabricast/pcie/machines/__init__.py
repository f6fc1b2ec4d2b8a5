"""Copies on one machine: calibration from probes, limits, validation and the engine model."""
