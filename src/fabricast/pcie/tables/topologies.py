"""PCIe trees as rows of the tables topology, vertex and link."""

from __future__ import annotations

import pandas as pd

from fabricast.pcie.topology.symmetry import automorphism_count
from fabricast.pcie.topology.tree import PcieTree


def topology_rows(trees: list[PcieTree]) -> pd.DataFrame:
    """Return the rows of the table topology, one per tree."""
    return pd.DataFrame(
        [
            {
                "topology": tree.name,
                "study": "pcie",
                "kind": "pcie_tree",
                "source": tree.source,
                "tag": tree.tag,
                "endpoints": len(tree.endpoint_names),
                "vertices": len(tree.vertices),
                "links": len(tree.link_names),
                "leaf_symmetries": automorphism_count(tree) if automorphism_count(tree) < 2**63 else None,
            }
            for tree in trees
        ]
    ).astype({"leaf_symmetries": "Int64"})


def vertex_rows(trees: list[PcieTree]) -> pd.DataFrame:
    """Return the rows of the table vertex, one per vertex."""
    return pd.DataFrame(
        [
            {
                "topology": tree.name,
                "vertex": vertex.name,
                "kind": vertex.kind,
                "label": vertex.label,
                "parent": vertex.parent,
            }
            for tree in trees
            for vertex in tree.vertices
        ]
    )


def link_rows(trees: list[PcieTree], *, bandwidth_bytes_per_s: float) -> pd.DataFrame:
    """Return the rows of the table link, one per directed link."""
    rows = []
    for tree in trees:
        reference = tree.link_bytes_per_s or tree.bandwidth_bytes_per_s or bandwidth_bytes_per_s
        for source, target, direction, port in tree.link_names:
            lower = source if direction == "pcie_up" else target
            ports = len(tree.vertex(lower).uplink_groups)
            rows.append(
                {
                    "topology": tree.name,
                    "link": f"{source}>{target}" + (f"#{port}" if ports > 1 else ""),
                    "source": source,
                    "target": target,
                    "class": direction,
                    "capacity_bytes_per_s": tree.vertex(lower).capacity * reference,
                }
            )
    return pd.DataFrame(rows)
