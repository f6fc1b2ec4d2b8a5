"""Graph files of NCCL (NCCL_GRAPH_FILE, NCCL_GRAPH_DUMP_FILE): orders and speeds of rings."""

from __future__ import annotations

from pathlib import Path
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from defusedxml import ElementTree
from defusedxml.common import DefusedXmlException

from fabricast.core.errors import InputError
from fabricast.inputs.files import read_bytes
from fabricast.nccl.search import Pattern, SearchGraph
from fabricast.nccl.system import PathType

_RING_ID, _TREE_ID = "0", "1"


def graph_text(graph: SearchGraph, comment: str) -> str:
    """Return a graph file with rings and, in the same order, trees.

    >>> text = graph_text(SearchGraph(((0, 2, 1, 3),), 20.0, PathType.PHB), "four GPUs")
    >>> '<gpu dev="0x2" rank="2" />' in text
    True
    """
    root = Element("graphs", version="1")
    for identifier, pattern in ((_RING_ID, Pattern.RING), (_TREE_ID, Pattern.BALANCED_TREE)):
        speed = f"{graph.gb_per_s:g}"
        one = SubElement(
            root,
            "graph",
            id=identifier,
            pattern=str(pattern),
            crossnic="0",
            nchannels=str(graph.channels),
            speedintra=speed,
            speedinter=speed,
            latencyinter="0",
            typeintra=graph.type.name,
            typeinter="PIX",
            samechannels=str(int(graph.same_channels)),
        )
        for order in graph.orders:
            channel = SubElement(one, "channel")
            for rank in order:
                SubElement(channel, "gpu", dev=hex(rank) if rank else "0", rank=str(rank))
    indent(root)
    words = " ".join(comment.split()).replace("--", "- -")
    return f"<!-- {words} -->\n{tostring(root, encoding='unicode')}\n"


def read_graph(path: Path | str) -> SearchGraph:
    """Read the rings of a graph file."""
    try:
        root = ElementTree.fromstring(read_bytes(path, most_bytes=4_000_000), forbid_dtd=True)
    except (ElementTree.ParseError, DefusedXmlException, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"is not valid XML: {type(error).__name__}: {error}", path=path) from error
    if root.tag != "graphs" or root.get("version") != "1":
        raise InputError(f'is <{root.tag} version="{root.get("version")}">, expected <graphs version="1">', path=path)
    ring = next((one for one in root.iter("graph") if one.get("id") == _RING_ID), None)
    if ring is None:
        raise InputError("has no graph with id 0, expected rings", path=path)
    orders = tuple(tuple(_rank(gpu, path) for gpu in channel.iter("gpu")) for channel in ring.iter("channel"))
    count = ring.get("nchannels", "")
    if not (count.isascii() and count.isdigit() and len(count) < 6) or int(count) != len(orders) or not orders:
        raise InputError(f"nchannels is '{count}', expected the number of channels {len(orders)}", path=path)
    ranks = sorted(orders[0])
    for order in orders:
        if sorted(order) != ranks or ranks != list(range(len(ranks))):
            raise InputError(f"has the channel {' '.join(map(str, order))}, expected each rank once", path=path)
    try:
        speed = float(ring.get("speedintra", ""))
    except ValueError:
        speed = 0.0
    kind = ring.get("typeintra", "")
    if not 0 < speed < 1e5 or kind not in PathType.__members__:
        raise InputError(
            f"speedintra is '{ring.get('speedintra')}' and typeintra '{kind}', expected a positive number and a path "
            "type such as PHB",
            path=path,
        )
    return SearchGraph(orders, speed, PathType[kind], same_channels=len(set(orders)) == 1)


def _rank(gpu: Element, path: Path | str) -> int:
    """Return the rank of a GPU; files before NCCL 2.30 have only its device number, hexadecimal since 2.21."""
    text = gpu.get("rank") or gpu.get("dev") or ""
    try:
        rank = int(text, 16 if text.startswith("0x") else 10)
    except ValueError:
        raise InputError(f"dev is '{text}', expected a device number", path=path) from None
    if not 0 <= rank < 1024:
        raise InputError(f"dev is '{text}', expected a device number below 1024", path=path)
    return rank
