"""Every number that the study of two-level networks needs, with tag and source, for the table of parameters."""

from __future__ import annotations

from fabricast.inputs.parameters import Parameter, Tag
from fabricast.percs.cases import WORKLOADS
from fabricast.percs.network import GATEWAYS, percs
from fabricast.percs.workloads import BLOCKS, Workload

__all__ = ["network_parameters"]

_SLIDES = "Bhatele et al., SC11, slides LLNL-PRES-511461"
#: Properties of the network: unit, tag, source.
_NETWORK: dict[str, tuple[str, Tag, str]] = {
    "cores_per_router": ("1", "published", f"{_SLIDES}: four 8-core POWER7 a node"),
    "routers_per_drawer": ("1", "published", f"{_SLIDES}: 8 nodes a drawer"),
    "drawers_per_group": ("1", "published", f"{_SLIDES}: 4 drawers a supernode"),
    "ll_bytes_per_s": ("bytes/s", "published", f"{_SLIDES}: LL links"),
    "lr_bytes_per_s": ("bytes/s", "published", f"{_SLIDES}: LR links"),
    "d_bytes_per_s": ("bytes/s", "published", f"{_SLIDES}: D links"),
    "injection_bytes_per_s": ("bytes/s", "derived", "192 GB/s of the hub to its host, both ways, halved"),
    "hop_latency_s": ("s", "assumed", "no source"),
    "multiplicity": ("1", "assumed", "one link a pair of supernodes; the slides speak of the single link of two"),
}
_RULES = {
    "mod": "node j mod 32 of a supernode holds the link to supernode j",
    "block": "nodes hold links to supernodes in blocks",
    "rel": "as block, counted from the own supernode",
}
#: What the slides say of sides and sizes of a workload.
_PUBLISHED_SIZES = {"4D-64": "64^4 elements a task, messages of 2 MB"}
_PUBLISHED_MULTICAST = "each task sends 1 MB to 14 others"


def network_parameters() -> list[Parameter]:
    """Return network, gateways, workloads and blocks of the study as parameters.

    Returns
    -------
    list of Parameter
        In a fixed order.

    Examples
    --------
    >>> next(one.value for one in network_parameters() if one.name == "d_bytes_per_s")
    10000000000.0
    """
    network = percs(64)
    found = [
        Parameter("percs", "percs", name, float(getattr(network, name)), unit, tag, source)
        for name, (unit, tag, source) in _NETWORK.items()
    ]
    found += [
        Parameter("percs", "percs", f"gateway_{name}", float(name == network.gateway), "1", "assumed",
                  f"{_RULES[name]}; 1 marks the default")
        for name in GATEWAYS
    ]  # fmt: skip
    for workload in WORKLOADS.values():
        found += _workload(workload)
    for dimensions, shapes in BLOCKS.items():
        for level, shape in zip(("node", "drawer", "supernode"), shapes, strict=True):
            found += [
                Parameter("percs", f"{dimensions}D", f"{level}_block_side_{axis}", float(side), "1", "assumed",
                          "shape of the blocks of a mapping, the last side fastest")
                for axis, side in enumerate(shape, 1)
            ]  # fmt: skip
    return found


def _workload(workload: Workload) -> list[Parameter]:
    name = workload.name
    said = _PUBLISHED_SIZES.get(name) or (_PUBLISHED_MULTICAST if name.startswith("MC") else "")
    if name.endswith("-300"):
        said = "messages of 1 MB on 300 supernodes"
    tag: Tag = "published" if said else "assumed"
    found = [
        Parameter("percs", name, "message_size", workload.size_bytes, "bytes", tag, f"{_SLIDES}: {said}" if said
                  else "no source"),
        Parameter("percs", name, "messages_per_task", float(workload.messages // workload.tasks), "1", "published",
                  f"{_SLIDES}: two neighbours a dimension, or 14 targets"),
    ]  # fmt: skip
    # The only grid of 65,536 tasks with four equal sides.
    sides: Tag = "derived" if name == "4D-64" else "assumed"
    found += [
        Parameter("percs", name, f"grid_side_{axis}", float(side), "1", sides, "tasks, the last side fastest")
        for axis, side in enumerate(workload.grid, 1)
    ]
    if name.startswith("MC"):
        found.append(
            Parameter("percs", name, "multicast_targets_known", 0.0, "1", "assumed",
                      "which 14 tasks are sent to is not published; half, near, rand and stride are our readings")
        )  # fmt: skip
    return found
