"""Bytes between ranks: patterns in words, and files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabricast.core.errors import InputError
from fabricast.core.number_text import size_text
from fabricast.core.units import parse_bytes
from fabricast.inputs.files import exists
from fabricast.networks.matrices import read_matrix

#: Patterns in words, for messages.
_EXPECTED = "halo:4x8x2, all_to_all:64 or ring:64, and ',SIZE' such as ',1 MiB'"
_WORDS = re.compile(r"(halo|all_to_all|ring):([0-9x]+)(?:,(.+))?")
#: Other names of a pattern.
_SAME = {"alltoall": "all_to_all", "all-to-all": "all_to_all"}
_DEFAULT_BYTES = 1 << 20
#: Most pairs of a pattern in words; all_to_all has the square of its ranks.
_MOST_PAIRS = 20_000_000


class RankPairs(NamedTuple):
    """Bytes between ranks.

    Shapes: source, target (pairs,) of int64, size_bytes (pairs,) of float64.
    """

    title: str
    ranks: int
    source: NDArray[np.int64]
    target: NDArray[np.int64]
    size_bytes: NDArray[np.float64]


def is_pattern(text: str) -> bool:
    """Return whether a text is a pattern in words.

    >>> is_pattern("halo:4x8"), is_pattern("matrix.csv")
    (True, False)
    """
    return _with_usual_name(text).partition(":")[0] in ("halo", "all_to_all", "ring")


def _with_usual_name(text: str) -> str:
    """Return a pattern in words with the usual name of its kind."""
    name, colon, rest = text.partition(":")
    return f"{_SAME.get(name, name)}{colon}{rest}"


def states_sizes(pattern: str | Path) -> bool:
    """Return whether a pattern states the bytes between ranks: files do, and words with a size.

    >>> states_sizes("halo:4x8"), states_sizes("halo:4x8,1 MiB"), states_sizes("matrix.csv")
    (False, True, True)
    """
    return not is_pattern(str(pattern)) or "," in str(pattern)


def rank_pairs(pattern: str | Path) -> RankPairs:
    """Return the bytes between ranks of ``halo:4x8x2``, ``all_to_all:64`` or ``ring:64``, with ``,SIZE``, or of a file.

    >>> ring = rank_pairs("ring:3,1 KiB")
    >>> ring.source.tolist(), ring.target.tolist(), ring.size_bytes.tolist()
    ([0, 1, 2], [1, 2, 0], [1024.0, 1024.0, 1024.0])
    """
    if not is_pattern(str(pattern)):
        if not Path(pattern).suffix and not exists(pattern):
            raise InputError(f"is '{pattern}', neither a file nor {_EXPECTED}", argument="pattern")
        source, target, size, ranks = read_matrix(pattern)
        return RankPairs(str(pattern), ranks, source, target, size)
    match = _WORDS.fullmatch(_with_usual_name(str(pattern)))
    words = match[2].split("x") if match else [""]
    sides = [int(word) for word in words] if all(0 < len(word) < 8 for word in words) else []
    if match is None or not sides or min(sides) < 1 or (match[1] != "halo" and len(sides) != 1):
        raise InputError(f"is '{pattern}', expected {_EXPECTED}", argument="pattern")
    size_bytes = parse_bytes(match[3], "pattern") if match[3] else float(_DEFAULT_BYTES)
    ranks = int(np.prod(np.array(sides, dtype=np.float64)))
    if not 2 <= ranks <= _MOST_PAIRS or (match[1] == "all_to_all" and ranks**2 > _MOST_PAIRS):
        raise InputError(
            f"has {ranks:,} ranks, expected 2 or more, and at most {_MOST_PAIRS:,} pairs", argument="pattern"
        )
    if match[1] == "halo":
        source, target = _halo(tuple(sides))
    elif match[1] == "ring":
        source = np.arange(ranks)
        target = (source + 1) % ranks
    else:
        source, target = np.divmod(np.arange(ranks * ranks), ranks)
        source, target = source[source != target], target[source != target]
    title = f"{match[1]} of {match[2]} ranks ({size_text(size_bytes)} each)"
    return RankPairs(title, ranks, source, target, np.full(source.size, size_bytes))


def _halo(sides: tuple[int, ...]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the pairs of neighbours on a torus; the last side varies fastest, as in MPI_Cart_create."""
    ranks = np.arange(int(np.prod(sides))).reshape(sides)
    sources, targets = [], []
    for axis, side in enumerate(sides):
        for step in dict.fromkeys((1, side - 1)) if side > 1 else ():
            sources.append(ranks.ravel())
            targets.append(np.roll(ranks, -step, axis=axis).ravel())
    return np.concatenate(sources).astype(np.int64), np.concatenate(targets).astype(np.int64)


def node_pairs(
    pairs: RankPairs, ranks_per_node: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return the bytes between nodes of consecutive ranks; bytes within a node are left out."""
    source, target = pairs.source // ranks_per_node, pairs.target // ranks_per_node
    apart = source != target
    nodes = -(-pairs.ranks // ranks_per_node)
    keys, inverse = np.unique(source[apart] * nodes + target[apart], return_inverse=True)
    size_bytes: NDArray[np.float64] = np.bincount(inverse, pairs.size_bytes[apart], keys.size).astype(np.float64)
    return keys // nodes, keys % nodes, size_bytes


def grid_of(pattern: str | Path) -> tuple[int, ...] | None:
    """Return the process grid of a halo pattern in words; None for other patterns.

    >>> grid_of("halo:4x8,1 MiB"), grid_of("ring:8")
    ((4, 8), None)
    """
    match = _WORDS.fullmatch(str(pattern))
    return tuple(map(int, match[2].split("x"))) if match and match[1] == "halo" else None


def compact_block(sides: tuple[int, ...], ranks_per_node: int) -> tuple[int, ...] | None:
    """Return the block of a grid with the ranks of one node that has the fewest neighbours outside; None without one.

    >>> compact_block((4, 4, 4, 8), 8), compact_block((3, 3), 4)
    ((1, 1, 4, 2), None)
    """
    blocks: list[tuple[int, ...]] = [()]
    for side in sides:
        divisors = [size for size in range(1, min(side, ranks_per_node) + 1) if side % size == 0]
        blocks = [(*block, size) for block in blocks for size in divisors if ranks_per_node % size == 0]
    fitting = [block for block in blocks if int(np.prod(block)) == ranks_per_node]

    def outside(block: tuple[int, ...]) -> float:
        return sum(2 / size for side, size in zip(sides, block, strict=True) if size < side)

    return min(fitting, key=outside, default=None)


def slots_of_blocks(sides: tuple[int, ...], block: tuple[int, ...]) -> NDArray[np.int64]:
    """Return the place of each rank if nodes hold blocks of a grid in place of consecutive ranks.

    >>> slots_of_blocks((2, 4), (2, 2)).tolist()
    [0, 1, 4, 5, 2, 3, 6, 7]
    """
    coordinates = np.indices(sides).reshape(len(sides), -1)
    size, counts = np.array(block)[:, None], [side // one for side, one in zip(sides, block, strict=True)]
    node = np.ravel_multi_index(tuple(coordinates // size), counts)
    inner = np.ravel_multi_index(tuple(coordinates % size), block)
    slots: NDArray[np.int64] = (node * int(np.prod(block)) + inner).astype(np.int64)
    return slots


def in_blocks(pairs: RankPairs, slots: NDArray[np.int64]) -> RankPairs:
    """Return the bytes between the places of ranks."""
    return pairs._replace(source=slots[pairs.source], target=slots[pairs.target])
