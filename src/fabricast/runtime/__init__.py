"""Runtime services: compilation, code digests, threads, progress, MPI launchers."""
