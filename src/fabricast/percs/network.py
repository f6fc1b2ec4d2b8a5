"""Two-level direct networks: routers in drawers in groups, every router joined to all of its group."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fabricast.core.errors import InputError, unknown_name

__all__ = ["GATEWAYS", "LINK_CLASSES", "Gateway", "TwoLevelNetwork", "percs"]

Gateway = Literal["mod", "block", "rel"]
#: Rules that say which router of a group holds the link to another group.
GATEWAYS: tuple[Gateway, ...] = ("mod", "block", "rel")
#: Within a drawer, within a group between drawers, between groups.
LINK_CLASSES = ("LL", "LR", "D")
_MOST_GROUPS = 4096


@dataclass(frozen=True)
class TwoLevelNetwork:
    """A two-level direct network such as PERCS or a dragonfly.

    Parameters
    ----------
    groups : int
        Groups (supernodes of PERCS), all joined to each other.
    drawers_per_group, routers_per_drawer, cores_per_router : int
        Shape of a group; all routers of a group are joined to each other.
    multiplicity : int, default 1
        Parallel links between two groups; bytes are split evenly over them.
    gateway : {'mod', 'block', 'rel'}
        Which router holds the link from group i to group j: j mod routers, blocks of j, or
        blocks of j - i. [assumed]
    ll_bytes_per_s, lr_bytes_per_s, d_bytes_per_s : float
        Capacity of a directed link within a drawer, between drawers, between groups.
    injection_bytes_per_s : float
        What a router can inject. [assumed]
    hop_latency_s : float
        Delay of a link. [assumed]

    References
    ----------
    Bhatele, Jain, Gropp, Kale, "Avoiding hot-spots on two-level direct networks", SC11.

    Examples
    --------
    >>> percs(300).counts()
    {'LL': 67200, 'LR': 230400, 'D': 89700}
    """

    groups: int
    drawers_per_group: int = 4
    routers_per_drawer: int = 8
    cores_per_router: int = 32
    multiplicity: int = 1
    gateway: Gateway = "mod"
    ll_bytes_per_s: float = 24e9
    lr_bytes_per_s: float = 5e9
    d_bytes_per_s: float = 10e9
    injection_bytes_per_s: float = 96e9
    hop_latency_s: float = 50e-9

    def __post_init__(self) -> None:
        for name, least, most in (
            ("groups", 2, _MOST_GROUPS), ("drawers_per_group", 1, 64), ("routers_per_drawer", 1, 64),
            ("cores_per_router", 1, 1024),
        ):  # fmt: skip
            if not least <= getattr(self, name) <= most:
                raise InputError(f"{name} is {getattr(self, name)}, expected {least} to {most}")
        if self.gateway not in GATEWAYS:
            raise unknown_name("gateway", self.gateway, GATEWAYS)
        if not 1 <= self.multiplicity <= self.group_routers * 16:
            raise InputError(f"multiplicity is {self.multiplicity}, expected 1 to {self.group_routers * 16}")
        for name in ("ll", "lr", "d", "injection"):
            if not 0 < getattr(self, f"{name}_bytes_per_s") < float("inf"):
                raise InputError(f"{name}_bytes_per_s is {getattr(self, f'{name}_bytes_per_s')}, expected a rate")

    @property
    def group_routers(self) -> int:
        """Routers of a group."""
        return self.drawers_per_group * self.routers_per_drawer

    @property
    def routers(self) -> int:
        """All routers."""
        return self.groups * self.group_routers

    @property
    def tasks(self) -> int:
        """Cores, one task each."""
        return self.routers * self.cores_per_router

    def counts(self) -> dict[str, int]:
        """Return the directed links of each class."""
        routers, drawer = self.group_routers, self.routers_per_drawer
        return {
            "LL": self.routers * (drawer - 1),
            "LR": self.routers * (routers - drawer),
            "D": self.groups * (self.groups - 1) * self.multiplicity,
        }

    @cached_property
    def gateways(self) -> NDArray[np.int64]:
        """Router of group i that holds stripe k of the links to group j, shape (groups, groups, multiplicity)."""
        count, stripes, routers = self.groups, self.multiplicity, self.group_routers
        i, j, k = np.ogrid[:count, :count, :stripes]
        if self.gateway == "mod":
            owner = (j * stripes + k + 0 * i) % routers
        elif self.gateway == "block":
            # As many groups to a router as fill its 16 ports, whatever the size of the machine.
            per_router = max(16, -(-count * stripes // routers))
            owner = np.minimum((j * stripes + k + 0 * i) // per_router, routers - 1)
        else:
            owner = ((j - i) % count * stripes + k) * routers // (count * stripes)
        return np.ascontiguousarray(owner, dtype=np.int64)

    @cached_property
    def local_class(self) -> NDArray[np.int64]:
        """Class of the link between two routers of a group, shape (routers, routers); -1 on the diagonal."""
        drawer = np.arange(self.group_routers) // self.routers_per_drawer
        kind = np.where(drawer[:, None] == drawer[None, :], 0, 1)
        np.fill_diagonal(kind, -1)
        return kind.astype(np.int64)

    @property
    def capacities(self) -> NDArray[np.float64]:
        """Capacity in bytes/s by class."""
        return np.array([self.ll_bytes_per_s, self.lr_bytes_per_s, self.d_bytes_per_s])

    def link_capacities(self, stripes: int) -> NDArray[np.float64]:
        """Return the capacity in bytes/s of every link within groups, then of `stripes` links between each two."""
        within = self.capacities[np.maximum(self.local_class, 0).ravel()]
        return np.concatenate([np.tile(within, self.groups), np.full(self.groups**2 * stripes, self.d_bytes_per_s)])


@cache
def percs(groups: int, *, gateway: Gateway = "mod", multiplicity: int = 1) -> TwoLevelNetwork:
    """Return the PERCS network with some supernodes; equal calls share one and what it has worked out."""
    return TwoLevelNetwork(groups, gateway=gateway, multiplicity=multiplicity)
