"""SimGrid's C++ library as a peer: build it and run it on the same flows."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

__all__ = ["build_simgrid_peer", "run_simgrid_peer"]

Pair = tuple[int, int]
_SOURCE = Path(__file__).with_name("simgrid_peer.cpp")


def build_simgrid_peer(folder: Path) -> Path | None:
    """Build the peer in a folder and return its path.

    Returns None if the machine has no compiler or no SimGrid (Debian: libsimgrid-dev).
    """
    compiler, program = shutil.which("c++"), folder / "simgrid_peer"
    if compiler is None:
        return None
    command = [compiler, "-std=c++17", "-O3", "-march=native", str(_SOURCE), "-lsimgrid", "-o", str(program)]
    return program if subprocess.run(command, capture_output=True).returncode == 0 else None


def run_simgrid_peer(
    program: Path,
    *,
    endpoints: int,
    capacity: Sequence[float],
    routes: dict[Pair, Sequence[int]],
    graphs: Sequence[Sequence[Pair]],
    size_bytes: float,
) -> tuple[float, NDArray[np.float64]]:
    """Return the CPU seconds of SimGrid's simulation and the end time of each flow."""
    lines = [f"{endpoints} {len(capacity)} {len(routes)} {len(graphs)} {size_bytes!r}", " ".join(map(repr, capacity))]
    lines += [f"{s} {t} {len(path)} {' '.join(map(str, path))}" for (s, t), path in routes.items()]
    lines += [f"{len(pairs)} {' '.join(f'{s} {t}' for s, t in pairs)}" for pairs in graphs]
    work, result = program.with_name("work.txt"), program.with_name("result.txt")
    work.write_text("\n".join(lines) + "\n")
    # SimGrid switches between actors, which is several times faster on one core than on two.
    pin = ["taskset", "-c", "0"] if shutil.which("taskset") else []
    subprocess.run([*pin, str(program), str(work), str(result)], check=True, capture_output=True)
    values = np.loadtxt(result)
    return float(values[0]), values[1:]
