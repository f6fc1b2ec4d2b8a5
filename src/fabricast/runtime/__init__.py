"""How code runs: compilation, code digests, threads and progress, this machine, MPI launchers."""
