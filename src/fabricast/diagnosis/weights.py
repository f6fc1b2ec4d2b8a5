"""Weights of findings without a forecast gain, by kind."""

from __future__ import annotations

__all__ = ["ACCESS", "CONTRADICTION", "FIRST", "LINK"]

#: Contradictions of measured copies, then links, then transports.
CONTRADICTION, LINK, ACCESS = 1.9, 1.8, 1.7
#: Findings that come before all others: wrong results, and hops over the network within a host.
FIRST = 100.0
