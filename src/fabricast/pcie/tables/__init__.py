"""Rows of the database that this study computes."""
