"""The report page and its explorers."""
