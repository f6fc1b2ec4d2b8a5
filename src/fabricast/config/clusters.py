"""Configuration of the study of copies from GPU to network."""

from __future__ import annotations

from pydantic import Field

from fabricast.config.section import Section


class ClusterPatternConfig(Section):
    """Cluster of the user with the pattern of an application."""

    description: str = Field(description="YAML file with the key `cluster`, or the name of a built-in node.")
    files: list[str] = Field(
        default_factory=list, description="Further files: measured copies of a node, output of osu_latency."
    )
    nodes: int = Field(0, ge=0, le=100_000, description="Number of equal nodes; 0: as the file states.")
    nic: str = Field("", description="Network cards of a node and Gbit/s of each, such as `8x400`.")
    pattern: str = Field(
        description="`halo:4x4x8,1 MiB`, `all_to_all:64,1 MiB` or `ring:64,1 MiB` of ranks, or a file of bytes between "
        "ranks."
    )


class ClustersConfig(Section):
    """The study of copies from GPU to network."""

    machines: dict[str, ClusterPatternConfig] = Field(
        default_factory=dict, description="Clusters of the user, each with a pattern."
    )
