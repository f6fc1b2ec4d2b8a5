"""Which ways copies take, and which of those measured alone tells what the links carry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fabricast.pcie.copy_links import Way
from fabricast.pcie.host_memory import is_host
from fabricast.pcie.tree import PcieTree

__all__ = ["ONE_WAY", "apart", "has_local", "telling_way"]

#: In which order kinds of ways tell one way of the links.
ONE_WAY: tuple[Way, ...] = ("local", "crossing", "host_in", "between_roots")
#: Copies from host memory that are faster by this share show that those between GPUs are not held back by links.
_FASTER = 0.05


def has_local(tree: PcieTree) -> bool:
    """Whether some copy between GPUs does not cross the root complex."""
    routes, names = tree.routes, tree.endpoint_names
    gpus = [number for number, name in enumerate(names) if not is_host(tree, [(name, name)])]
    return any(not routes.crossing[s * routes.endpoints + t] for s in gpus for t in gpus if s != t)


def apart(tree: PcieTree, flows: Sequence[tuple[int, int]]) -> bool:
    """Whether no two flows use a link in the same direction."""
    routes = tree.routes
    used: set[int] = set()
    for source, target in flows:
        pair = source * routes.endpoints + target
        own = set(routes.link[routes.offset[pair] : routes.offset[pair + 1]].tolist())
        if own & used:
            return False
        used |= own
    return True


def telling_way(alone: Mapping[Way, Sequence[float]]) -> Way | None:
    """Return the kind of way whose copies alone tell what a link carries; None if none was measured.

    Parameters
    ----------
    alone : mapping of str to sequence of float
        Rates of copies alone by kind of way, those to host memory among those from it.

    Examples
    --------
    >>> telling_way({"local": [], "crossing": [9.9e9], "host_in": [22e9], "between_roots": []})
    'host_in'
    >>> telling_way({"local": [13e9], "crossing": [9.9e9], "host_in": [13e9], "between_roots": []})
    'local'
    """
    found = next((way for way in ONE_WAY if alone[way]), None)
    if found not in ("crossing", "between_roots") or not alone["host_in"]:
        return found
    # The links of a GPU carry what they carry from memory, however slowly GPUs reach each other through the root.
    return "host_in" if np.median(alone["host_in"]) > np.median(alone[found]) * (1 + _FASTER) else found
