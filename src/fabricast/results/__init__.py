"""Results of a run: tables, comparisons, claims, database, provenance."""
