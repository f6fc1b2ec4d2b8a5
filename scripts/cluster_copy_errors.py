"""Write the errors of copies between nodes against public measurements (config/published/cluster_copy_errors.csv)."""

from fabricast.clusters.evidence import copy_errors
from fabricast.core.resources import published
from fabricast.inputs.files import write_text

HEAD = (
    "# Errors of copies between nodes, from 1 MiB, against public measurements.\n"
    "# Written by scripts/cluster_copy_errors.py. fitted: what was fitted on the same machine.\n"
)
write_text(published() / "cluster_copy_errors.csv", HEAD + copy_errors().to_csv(index=False, lineterminator="\n"))
