"""Files of NCCL's example tuner plugin: choices of algorithm, protocol and channels by size."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fabricast.core.errors import InputError
from fabricast.inputs.files import read_text
from fabricast.nccl.costs import Algorithm, Operation, Protocol

__all__ = ["TunerRule", "read_tuner", "tuner_text"]

_NAMES = {
    Operation.ALL_REDUCE: "allreduce",
    Operation.ALL_GATHER: "allgather",
    Operation.REDUCE_SCATTER: "reducescatter",
    Operation.BROADCAST: "broadcast",
    Operation.REDUCE: "reduce",
}
_ALGORITHMS = ("tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat")
_INTEGER = re.compile(r"-?[0-9]{1,18}")
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
    """Choice of the plugin for a range of sizes; the first rule that matches applies.

    Parameters
    ----------
    operation : Operation
        Operation with entries in NCCL's cost table.
    least_bytes, most_bytes : int
        Range of sizes, both included.
    algorithm, protocol : str
        Choice, in the words of the plugin.
    channels : int, default -1
        Channels; -1 for NCCL's number.
    ranks : int, default -1
        Number of ranks; -1 for any.
    """

    operation: Operation
    least_bytes: int
    most_bytes: int
    algorithm: str
    protocol: str
    channels: int = _ANY
    ranks: int = _ANY


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


def read_tuner(path: Path | str) -> tuple[list[TunerRule], list[str]]:
    """Read a file of the tuner plugin."""
    rules: list[TunerRule] = []
    warnings: list[str] = []
    operations = {name: operation for operation, name in _NAMES.items()}
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        fields = [field.strip() for field in line.split(",")]
        if not 8 <= len(fields) <= 10:
            raise InputError(
                f"has {len(fields)} fields, expected 8 to 10: the plugin skips such a line silently",
                path=path,
                line=number,
            )
        if fields[0] not in operations:
            raise InputError(
                f"collective_type is '{fields[0]}', expected one of {', '.join(operations)}", path=path, line=number
            )
        values = []
        for name, text in zip((*_FIELDS[1:3], *_FIELDS[5:]), (*fields[1:3], *fields[5:]), strict=False):
            if not _INTEGER.fullmatch(text):
                raise InputError(f"{name} is '{text}', expected an integer", path=path, line=number)
            values.append(int(text))
        for name, text, known in (("algorithm", fields[3], _ALGORITHMS), ("protocol", fields[4], tuple(Protocol))):
            if text not in known:
                raise InputError(f"{name} is '{text}', expected one of {', '.join(known)}", path=path, line=number)
        rule = TunerRule(operations[fields[0]], values[0], values[1], fields[3], fields[4], values[2], values[4])
        if rule.least_bytes > rule.most_bytes:
            raise InputError(
                f"min_bytes is {rule.least_bytes}, expected at most max_bytes {rule.most_bytes}", path=path, line=number
            )
        warnings += [f"line {number}: {text}" for text in _without_effect(rule, rules)]
        rules.append(rule)
    if not rules:
        raise InputError("contains no rule, expected at least one line of 8 to 10 fields", path=path)
    return rules, warnings


def _without_effect(rule: TunerRule, before: Sequence[TunerRule]) -> list[str]:
    texts = []
    if rule.protocol == Protocol.LL128:
        texts.append("no effect: NCCL disables ll128 on PCIe machines unless NCCL_PROTO names it")
    if rule.algorithm not in (Algorithm.RING, Algorithm.TREE):
        texts.append(f"no effect: NCCL does not use {rule.algorithm} on PCIe machines of one host")
    if any(
        one.operation is rule.operation
        and one.ranks in (_ANY, rule.ranks)
        and one.least_bytes <= rule.most_bytes
        and rule.least_bytes <= one.most_bytes
        for one in before
    ):
        texts.append("overlaps an earlier rule, which applies to the common sizes")
    return texts
