"""The machine of a user: topology, rates, measurements and settings, from the facts of all files and options."""
