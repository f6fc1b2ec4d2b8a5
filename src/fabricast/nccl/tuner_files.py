"""Files of NCCL's example tuner plugin: choices of algorithm, protocol and channels by size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fabricast.nccl.costs import Operation

_NAMES = {
    Operation.ALL_REDUCE: "allreduce",
    Operation.ALL_GATHER: "allgather",
    Operation.REDUCE_SCATTER: "reducescatter",
    Operation.BROADCAST: "broadcast",
    Operation.REDUCE: "reduce",
}
_FIELDS = (
    "collective_type",
    "min_bytes",
    "max_bytes",
    "algorithm",
    "protocol",
    "channels",
    "nNodes",
    "nRanks",
    "numPipeOps",
    "regBuff",
)
_ANY = -1


@dataclass(frozen=True)
class TunerRule:
    """Choice of the plugin for a range of sizes; the first rule that matches applies."""

    operation: Operation  # Operation with entries in NCCL's cost table
    #: Range of sizes, both included.
    least_bytes: int
    most_bytes: int
    #: Choice, in the words of the plugin.
    algorithm: str
    protocol: str
    channels: int = _ANY  # Channels; -1 for NCCL's number
    ranks: int = _ANY  # Number of ranks; -1 for any


def tuner_text(rules: Sequence[TunerRule], header: Sequence[str]) -> str:
    """Return a file of the tuner plugin.

    >>> rule = TunerRule(Operation.ALL_REDUCE, 0, 262143, "ring", "ll", ranks=8)
    >>> print(tuner_text([rule], ["all_reduce of 8 GPUs"]), end="")
    # all_reduce of 8 GPUs
    # collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff
    allreduce,0,262143,ring,ll,-1,1,8,-1,-1
    """
    lines = [f"# {' '.join(line.split())}" for line in header] + [f"# {','.join(_FIELDS)}"]
    lines += [
        f"{_NAMES[rule.operation]},{rule.least_bytes},{rule.most_bytes},{rule.algorithm},{rule.protocol},"
        f"{rule.channels},1,{rule.ranks},-1,-1"
        for rule in rules
    ]
    return "\n".join(lines) + "\n"
