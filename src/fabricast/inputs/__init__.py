"""Readers of input files (text, CSV, YAML, Parquet) with size limits and one-line errors."""
