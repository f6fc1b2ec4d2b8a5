"""Routes that turn further up than the tree shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fabricast.core.errors import InputError

if TYPE_CHECKING:
    from fabricast.pcie.tree import PcieTree

__all__ = ["RouteRule", "check_rule"]


@dataclass(frozen=True)
class RouteRule:
    """A route that turns above the nearest vertex over both ends, as with access control services of PCIe (ACS).

    Parameters
    ----------
    source, target : str
        Endpoints; ``*`` stands for every one below `turn`.
    turn : str
        Vertex at which copies from source to target turn, above both.
    """

    source: str
    target: str
    turn: str

    def __str__(self) -> str:
        return f"route from '{self.source}' to '{self.target}'"

    def matches(self, source: str, target: str) -> bool:
        """Whether the rule is for copies from one endpoint to another."""
        return self.source in ("*", source) and self.target in ("*", target)


def check_rule(tree: PcieTree, rule: RouteRule) -> None:
    """Refuse a rule that no route of a tree can follow."""
    named = f"{rule} of topology '{tree.name}'"
    ends = [end for end in (rule.source, rule.target) if end != "*"]
    unknown = [end for end in ends if end not in tree.endpoint_number]
    if unknown or (rule.source == rule.target != "*"):
        raise InputError(f"{named} has the end '{(unknown or ends)[0]}', expected two different endpoints or '*'")
    if rule.turn not in tree.depth or tree.is_endpoint(rule.turn):
        raise InputError(f"{named} turns at '{rule.turn}', expected a switch, a root complex or the system")
    apart = [end for end in ends if rule.turn not in tree.ancestors(end)]
    if apart:
        raise InputError(f"{named} turns at '{rule.turn}', expected a vertex above '{apart[0]}'")
