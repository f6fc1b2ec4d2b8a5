"""The max-rate study: many processes on one node (Gropp et al., EuroMPI 2016)."""
