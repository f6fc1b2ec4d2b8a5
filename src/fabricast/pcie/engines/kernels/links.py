"""Links of the engine model: routes, capacities and shared limits."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Links(NamedTuple):
    """Routes of flows, and links with their capacities in bytes/s."""

    offset: NDArray[np.int64]
    link: NDArray[np.int64]
    opposite: NDArray[np.int64]
    capacity: NDArray[np.float64]
    #: One row per link: links that must all be in use for this link to be a limit; -1 for none.
    needs: NDArray[np.int64]
    duplex_cost: float
