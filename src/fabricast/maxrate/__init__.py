"""Max-rate models of many processes per node (Gropp et al., EuroMPI 2016)."""
