"""Calibration of direct links between GPUs (NVLink, NVSwitch, xGMI) from single copies."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from fabricast.pcie.topology.parts import PeerLink

_SWITCH = "NVSwitch"


def calibrated_links(
    links: Sequence[PeerLink], alone: Mapping[tuple[str, str], Sequence[float]]
) -> tuple[PeerLink, ...]:
    """Return direct links with the rates that single copies reached over them.

    >>> links = [PeerLink("NVLink", ("0", "1"), 50e9), PeerLink("NVLink", ("1", "2"), 100e9)]
    >>> [link.bytes_per_s for link in calibrated_links(links, {("0", "1"): [45e9]})]
    [45000000000.0, 90000000000.0]
    """
    pairs = [pair for link in links for pair in _parts(link)]
    measured = {
        id(link): float(np.median(rates))
        for link in pairs
        if (rates := [rate for ends in itertools.permutations(link.endpoints, 2) for rate in alone.get(ends, ())])
    }
    shares = [measured[id(link)] / link.bytes_per_s for link in pairs if id(link) in measured and link.bytes_per_s]
    share = float(np.median(shares)) if shares else 1.0
    return tuple(
        PeerLink(
            link.kind,
            link.endpoints,
            measured.get(id(link), None if link.bytes_per_s is None else link.bytes_per_s * share),
        )
        for link in pairs
    )


def _parts(link: PeerLink) -> list[PeerLink]:
    """Split a direct link into links that can have different rates."""
    if link.kind == _SWITCH:
        return [link]
    return [PeerLink(link.kind, pair, link.bytes_per_s) for pair in itertools.combinations(link.endpoints, 2)]
