"""Hot-spots, mappings and routings on two-level direct networks (SC11 study)."""
