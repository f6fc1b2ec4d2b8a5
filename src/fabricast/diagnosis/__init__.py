"""Diagnosis of a machine from the files that people paste into a bug report."""
