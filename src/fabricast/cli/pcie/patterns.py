"""Congestion graphs from command-line options."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fabricast.core.errors import InputError
from fabricast.inputs.copy_lists import pairs_of

if TYPE_CHECKING:
    from fabricast.pcie.graphs.congestion_graphs import CongestionGraphs
    from fabricast.pcie.topology.tree import PcieTree


@dataclass(frozen=True)
class Patterns:
    """Source of the copies: a file, or one of the patterns."""

    file: Path | None  # File of congestion graphs
    all_to_all: str | None  # Size of each copy between all pairs of GPUs
    halo: str | None  # Process grid such as ``4x2``
    ring: bool  # Whether every GPU copies to the next one
    #: Whether every GPU reads from its nearest host memory; None for a command without host memory.
    host_to_all: bool | None
    copies: str | None  # List of copies such as ``0>3 1>3``

    def __post_init__(self) -> None:
        options = {
            f"the file {self.file}": self.file,
            "--all-to-all SIZE": self.all_to_all,
            "--halo GRID": self.halo,
            "--ring": self.ring or None,
            "--host-to-all": self.host_to_all or None,
            "--copies LIST": self.copies,
        }
        given = [name.split(" ")[0] if name[0] == "-" else name for name, value in options.items() if value is not None]
        if len(given) > 1:
            raise InputError(f"{' and '.join(given)} exclude each other, expected one; --size is the size of each copy")
        if not given:
            patterns = [name for name in list(options)[1:] if self.host_to_all is not None or name != "--host-to-all"]
            raise InputError(f"no copies are specified, expected a file of graphs or one of: {', '.join(patterns)}")

    def graphs(self, tree: PcieTree, size_bytes: float) -> CongestionGraphs:
        """Return the graph of the pattern."""
        from fabricast.api import graphs as patterns
        from fabricast.cli.options import size_of
        from fabricast.cli.pcie.schedule_text import parse_grid

        if self.all_to_all is not None:
            return patterns.all_to_all(tree, size=size_of(self.all_to_all, "--all-to-all"))
        if self.halo is not None:
            return patterns.halo_exchange(tree, parse_grid(self.halo), size=size_bytes)
        if self.host_to_all:
            return patterns.host_copies(tree, size=size_bytes)
        if self.ring:
            return patterns.collective_step(tree, "ring", size=size_bytes)
        assert self.copies is not None
        try:
            return patterns.graph(pairs_of(self.copies), size=size_bytes, name="copies", tree=tree)
        except InputError as error:
            # The option that specifies the argument `pairs` has another name.
            if error.argument == "pairs":
                raise InputError(error.reason, argument="copies") from None
            raise
