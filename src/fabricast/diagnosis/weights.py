"""Weights of findings without a forecast gain, by kind."""

from __future__ import annotations

from fabricast.core.findings import LEAST_WEIGHT, MINOR_WEIGHT

#: What measurements and files state precedes what a model says: contradictions of measured copies, then links, then
#: transports. Forecast gains of the model are smaller.
CONTRADICTION, LINK, ACCESS = 59.0, 58.0, 57.0
#: Measured times that are slower than on public machines: causes that the files state precede them.
SYMPTOM = LEAST_WEIGHT + 1
#: Findings that need not cost time.
MINOR = MINOR_WEIGHT
#: Findings that come before all others: wrong results, runs that failed, and hops over the network within a host.
FIRST = 100.0
