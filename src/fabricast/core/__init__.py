"""What all studies share and nobody reads or writes files for: errors, units, seeds, names."""
