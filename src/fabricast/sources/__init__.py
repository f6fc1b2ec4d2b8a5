"""Sources: readers of the files that users have, one module per program, and the registry of their formats."""
