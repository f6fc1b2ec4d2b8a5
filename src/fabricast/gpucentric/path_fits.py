"""Two-parameter fits (start-up time and rate) of measured path times."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def two_parameter_fit(size_bytes: NDArray[np.float64], time_s: NDArray[np.float64]) -> tuple[float, float]:
    """Fit start-up time and time per byte by least squares of the relative errors.

    Shapes: size_bytes (sizes,); time_s (sizes,).

    >>> size = np.array([1e3, 1e6])
    >>> start_up, per_byte = two_parameter_fit(size, 1e-5 + size / 1e10)
    >>> round(start_up * 1e6, 6), round(1e-9 / per_byte, 6)
    (10.0, 10.0)
    """
    design = np.stack([1 / time_s, size_bytes / time_s], axis=1)
    (start_up, per_byte), *_ = np.linalg.lstsq(design, np.ones_like(time_s), rcond=None)
    return float(start_up), float(per_byte)
