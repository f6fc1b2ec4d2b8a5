"""HTML report and its interactive explorers."""
