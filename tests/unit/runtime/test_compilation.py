"""Starting the compiler: light for kernels, whole for functions of others."""

import subprocess
import sys

_STARTED = """
import sys
from fabricast.percs.kernels import loads, percentiles
from fabricast.pcie.kernels.sharers import links_in_use
import numpy as np
links_in_use(1, np.array([0, 1]), np.array([0]))
"""


def _told(code):
    """What a new interpreter prints."""
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def test_kernels_start_without_scipys_linear_algebra():
    assert _told(_STARTED + "print('scipy.linalg' in sys.modules)") == "False"


def test_functions_of_others_still_find_linear_algebra():
    product = "import numba; print(numba.njit(lambda a: np.dot(a, a))(np.array([1.0, 2.0])))"
    assert _told(f"{_STARTED}\n{product}").splitlines() == ["5.0"]
