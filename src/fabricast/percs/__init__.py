"""The study of two-level direct networks: hot-spots, mappings and routings (Bhatele et al., SC11)."""
