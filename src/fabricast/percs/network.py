"""Two-level direct networks such as PERCS: fully connected groups of routers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fabricast.core.errors import InputError, unknown_name

__all__ = ["GATEWAYS", "LINK_CLASSES", "Gateway", "TwoLevelNetwork", "percs"]

Gateway = Literal["mod", "block", "rel"]
#: Rules that assign the link to another group to a router (the gateway).
GATEWAYS: tuple[Gateway, ...] = ("mod", "block", "rel")
#: Links within a drawer, between drawers of a group, and between groups.
LINK_CLASSES = ("LL", "LR", "D")
_MOST_GROUPS = 4096


@dataclass(frozen=True)
class TwoLevelNetwork:
    """Two-level direct network such as PERCS or a dragonfly.

    All routers of a group are connected to each other, and all groups are connected to each other.

    Parameters
    ----------
    groups : int
        Number of groups (PERCS supernodes).
    drawers_per_group, routers_per_drawer, cores_per_router : int
        Shape of a group.
    multiplicity : int, default 1
        Number of parallel links between two groups; bytes are split evenly over them.
    gateway : {'mod', 'block', 'rel'}
        Rule for the router of group i with the link to group j: j mod routers, blocks of j, or
        blocks of j - i. [assumed]
    ll_bytes_per_s, lr_bytes_per_s, d_bytes_per_s : float
        Capacity in bytes/s of a directed link within a drawer, between drawers and between groups.
    injection_bytes_per_s : float
        Injection bandwidth of a router in bytes/s. [assumed]
    hop_latency_s : float
        Latency of a link in s. [assumed]

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
            ("groups", 2, _MOST_GROUPS),
            ("drawers_per_group", 1, 64),
            ("routers_per_drawer", 1, 64),
            ("cores_per_router", 1, 1024),
        ):
            if not least <= getattr(self, name) <= most:
                raise InputError(f"{name} is {getattr(self, name)}, expected {least} to {most}")
        if self.gateway not in GATEWAYS:
            raise unknown_name("gateway", self.gateway, GATEWAYS)
        if not 1 <= self.multiplicity <= self.group_routers * 16:
            raise InputError(f"multiplicity is {self.multiplicity}, expected 1 to {self.group_routers * 16}")
        for name in ("ll", "lr", "d", "injection"):
            if not 0 < getattr(self, f"{name}_bytes_per_s") < float("inf"):
                raise InputError(
                    f"{name}_bytes_per_s is {getattr(self, f'{name}_bytes_per_s')}, expected a rate above 0"
                )

    @property
    def group_routers(self) -> int:
        """Number of routers in a group."""
        return self.drawers_per_group * self.routers_per_drawer

    @property
    def routers(self) -> int:
        """Number of routers."""
        return self.groups * self.group_routers

    @property
    def tasks(self) -> int:
        """Number of tasks, one per core."""
        return self.routers * self.cores_per_router

    def counts(self) -> dict[str, int]:
        """Return the number of directed links of each class."""
        routers, drawer = self.group_routers, self.routers_per_drawer
        return {
            "LL": self.routers * (drawer - 1),
            "LR": self.routers * (routers - drawer),
            "D": self.groups * (self.groups - 1) * self.multiplicity,
        }

    @cached_property
    def gateways(self) -> NDArray[np.int64]:
        """Router of group i with parallel link k to group j, indexed [i, j, k]."""
        count, stripes, routers = self.groups, self.multiplicity, self.group_routers
        i, j, k = np.ogrid[:count, :count, :stripes]
        if self.gateway == "mod":
            owner = (j * stripes + k + 0 * i) % routers
        elif self.gateway == "block":
            # Each router has 16 ports for links between groups; fill them before using the next router.
            per_router = max(16, -(-count * stripes // routers))
            owner = np.minimum((j * stripes + k + 0 * i) // per_router, routers - 1)
        else:
            owner = ((j - i) % count * stripes + k) * routers // (count * stripes)
        return np.ascontiguousarray(owner, dtype=np.int64)

    @cached_property
    def local_class(self) -> NDArray[np.int64]:
        """Class of each link within a group, shape (routers, routers); -1 on the diagonal."""
        drawer = np.arange(self.group_routers) // self.routers_per_drawer
        kind = np.where(drawer[:, None] == drawer[None, :], 0, 1)
        np.fill_diagonal(kind, -1)
        return kind.astype(np.int64)

    @property
    def capacities(self) -> NDArray[np.float64]:
        """Link capacity in bytes/s of each class."""
        return np.array([self.ll_bytes_per_s, self.lr_bytes_per_s, self.d_bytes_per_s])

    def link_capacities(self, stripes: int) -> NDArray[np.float64]:
        """Return the capacity of every link in bytes/s.

        Links within groups come first, then `stripes` links between each pair of groups.
        """
        within = self.capacities[np.maximum(self.local_class, 0).ravel()]
        return np.concatenate([np.tile(within, self.groups), np.full(self.groups**2 * stripes, self.d_bytes_per_s)])


@cache
def percs(groups: int, *, gateway: Gateway = "mod", multiplicity: int = 1) -> TwoLevelNetwork:
    """Return the PERCS network with this number of supernodes (cached)."""
    return TwoLevelNetwork(groups, gateway=gateway, multiplicity=multiplicity)
