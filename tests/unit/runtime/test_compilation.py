"""Starting kernels: without the compiler where they are kept, light where they are not, whole for functions of others."""

import os
import subprocess
import sys

_STARTED = """
import sys
from fabricast.percs.kernels import loads, percentiles
from fabricast.pcie.graphs.kernels.link_use import links_in_use
import numpy as np
links_in_use(1, np.array([0, 1]), np.array([0]))
"""


def _told(code, **environment):
    """What a new interpreter prints."""
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, env={**os.environ, **environment}
    )
    return done.stdout.strip()


def test_kernels_start_without_what_compiles_them(tmp_path):
    loaded = _STARTED + "print([name in sys.modules for name in ('numba.np.linalg', 'scipy.linalg')])"
    compiled = _told(loaded, FABRICAST_CACHE_DIR=str(tmp_path))
    # Linear algebra is known to the compiler, but not loaded.
    assert compiled == "[True, False]"
    kept = _told(loaded, FABRICAST_CACHE_DIR=str(tmp_path))
    assert kept == "[False, False]"


def test_functions_of_others_still_find_linear_algebra():
    product = "import numba; print(numba.njit(lambda a: np.dot(a, a))(np.array([1.0, 2.0])))"
    assert _told(f"{_STARTED}\n{product}").splitlines() == ["5.0"]
