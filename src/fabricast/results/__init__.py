"""What a run leaves behind: tables, comparisons, claims, database, provenance."""
