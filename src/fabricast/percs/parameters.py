"""Parameters of the two-level network study with provenance tags and sources."""

from __future__ import annotations

from fabricast.inputs.parameters import Parameter, Tag
from fabricast.percs.cases import WORKLOADS
from fabricast.percs.network import GATEWAYS, percs
from fabricast.percs.workloads import BLOCKS, Workload

_SLIDES = "Bhatele et al., SC11, slides LLNL-PRES-511461"
#: Properties of the network: unit, tag, source.
_NETWORK: dict[str, tuple[str, Tag, str]] = {
    "cores_per_router": ("1", "published", f"{_SLIDES}: four 8-core POWER7 per node"),
    "routers_per_drawer": ("1", "published", f"{_SLIDES}: 8 nodes per drawer"),
    "drawers_per_group": ("1", "published", f"{_SLIDES}: 4 drawers per supernode"),
    "ll_bytes_per_s": ("bytes/s", "published", f"{_SLIDES}: LL links"),
    "lr_bytes_per_s": ("bytes/s", "published", f"{_SLIDES}: LR links"),
    "d_bytes_per_s": ("bytes/s", "published", f"{_SLIDES}: D links"),
    "injection_bytes_per_s": ("bytes/s", "derived", "half of the bidirectional 192 GB/s between hub and host"),
    "hop_latency_s": ("s", "assumed", "no source"),
    "multiplicity": ("1", "assumed", "one link per pair of supernodes; the slides mention a single link"),
}
_RULES = {
    "mod": "node j mod 32 of a supernode has the link to supernode j",
    "block": "consecutive supernodes are linked to the same node",
    "rel": "as block, with supernodes numbered relative to the local supernode",
}
#: Message sizes stated on the slides, by workload.
_PUBLISHED_SIZES = {"4D-64": "64^4 elements per task, messages of 2 MB"}
_PUBLISHED_MULTICAST = "each task sends 1 MB to 14 others"


def network_parameters() -> list[Parameter]:
    """Return network, gateway, workload and block parameters of the study.

    >>> next(one.value for one in network_parameters() if one.name == "d_bytes_per_s")
    10000000000.0
    """
    network = percs(64)
    parameters = [
        Parameter("percs", "percs", name, float(getattr(network, name)), unit, tag, source)
        for name, (unit, tag, source) in _NETWORK.items()
    ]
    parameters += [
        Parameter(
            "percs",
            "percs",
            f"gateway_{name}",
            float(name == network.gateway),
            "1",
            "assumed",
            f"{_RULES[name]}; 1 marks the default",
        )
        for name in GATEWAYS
    ]
    for workload in WORKLOADS.values():
        parameters += _workload(workload)
    for dimensions, shapes in BLOCKS.items():
        for level, shape in zip(("node", "drawer", "supernode"), shapes, strict=True):
            parameters += [
                Parameter(
                    "percs",
                    f"{dimensions}D",
                    f"{level}_block_side_{axis}",
                    float(side),
                    "1",
                    "assumed",
                    "block shape of a mapping, last dimension fastest",
                )
                for axis, side in enumerate(shape, 1)
            ]
    return parameters


def _workload(workload: Workload) -> list[Parameter]:
    name = workload.name
    quote = _PUBLISHED_SIZES.get(name) or (_PUBLISHED_MULTICAST if name.startswith("MC") else "")
    if name.endswith("-300"):
        quote = "messages of 1 MB on 300 supernodes"
    tag: Tag = "published" if quote else "assumed"
    parameters = [
        Parameter(
            "percs",
            name,
            "message_size",
            workload.size_bytes,
            "bytes",
            tag,
            f"{_SLIDES}: {quote}" if quote else "no source",
        ),
        Parameter(
            "percs",
            name,
            "messages_per_task",
            float(workload.messages // workload.tasks),
            "1",
            "published",
            f"{_SLIDES}: two neighbours per dimension, or 14 targets",
        ),
    ]
    # 16^4 is the only grid of 65,536 tasks with four equal sides.
    sides: Tag = "derived" if name == "4D-64" else "assumed"
    parameters += [
        Parameter("percs", name, f"grid_side_{axis}", float(side), "1", sides, "tasks, last dimension fastest")
        for axis, side in enumerate(workload.grid, 1)
    ]
    if name.startswith("MC"):
        parameters.append(
            Parameter(
                "percs",
                name,
                "multicast_targets_known",
                0.0,
                "1",
                "assumed",
                "the 14 targets are not published; half, near, rand and stride are interpretations",
            )
        )
    return parameters
