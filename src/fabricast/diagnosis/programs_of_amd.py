"""Programs of AMD in place of those of NVIDIA, which advice names, where all GPUs are of AMD."""

from __future__ import annotations

import re

from fabricast.core.facts import Facts, Quantity

_AMD = re.compile(r"Radeon|Instinct|\bAMD\b|\bMI\d{2,3}|\bgfx\d", re.IGNORECASE)
#: Command of NVIDIA with its options, and the one of AMD with the same purpose; the first one that fits is used.
_COMMANDS = (
    ("nvidia-smi topo -p2p [a-z]", "rocm-smi --showtopoaccess"),
    ("nvidia-smi topo -mp?", "rocm-smi --showtopo"),
    ("nvidia-smi nvlink -[es]' and '-[es]", "amd-smi xgmi"),
    ("nvidia-smi nvlink -[es]", "amd-smi xgmi"),
    ("nvidia-smi -L", "rocm-smi --showid"),
    ("nvidia-smi -r", "rocm-smi --gpureset -d NUMBER"),
    ("nvidia-smi(?: -q)?(?: -d [A-Z,_]+)?", "rocm-smi -a"),
)
#: What only GPUs of NVIDIA have, and what is in its place.
_PARTS = (
    ("load nvidia-peermem (or use DMA-BUF)", "use DMA-BUF (kernel and driver of the network card) or ib_peer_mem"),
    ("modified drivers need Resizable BAR ('nvidia-smi -q', BAR1)", "Resizable BAR (large BAR) must be on in the BIOS"),
    (" and NCCL_NVLS_ENABLE", ""),
    ("'systemctl status nvidia-fabricmanager'", "'dmesg'"),
)
_QUOTED = re.compile("|".join(f"'(?P<n{place}>{pattern})'" for place, (pattern, _) in enumerate(_COMMANDS)))


def is_of_amd(facts: Facts) -> bool:
    """Return whether the files name GPUs, and all are of AMD, or only a program of AMD states their paths."""
    models = [str(name) for name in facts.values(Quantity.GPU_MODEL)]
    models += [str(name) for fact in facts.of(Quantity.COLLECTIVE) for name in fact.value.gpus]
    if models:
        return all(map(is_gpu_of_amd, models))
    return any(is_program_of_amd(block.program) for block in facts.blocks)


def is_gpu_of_amd(name: str) -> bool:
    """Return whether a name of a GPU is one of AMD."""
    return _AMD.search(name) is not None


def is_program_of_amd(program: str) -> bool:
    """Return whether only GPUs of AMD have output of a program."""
    return program.startswith(("rocm", "amd-smi", "TransferBench"))


def with_programs_of_amd(advice: str) -> str:
    """Return advice with the programs of AMD.

    >>> with_programs_of_amd("add 'nvidia-smi topo -m'; 'nvidia-smi nvlink -s' and '-e' show links")
    "add 'rocm-smi --showtopo'; 'amd-smi xgmi' show links"
    """
    for part, other in _PARTS:
        advice = advice.replace(part, other)
    return _QUOTED.sub(_command, advice)


def _command(match: re.Match[str]) -> str:
    assert match.lastgroup is not None, "each part of the expression is a group"
    return f"'{_COMMANDS[int(match.lastgroup[1:])][1]}'"
