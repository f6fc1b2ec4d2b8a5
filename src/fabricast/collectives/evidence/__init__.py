"""Measured collective operations, and the errors of forecasts."""
