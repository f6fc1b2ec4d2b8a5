"""Models of the time for k processes of a node to send n bytes each.

All models are linear in the message size, and the processes share the rate of the node. Times and rates use
the convention of the measurements (full round trip or one-way).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fabricast.core.errors import unknown_name

__all__ = ["CONVENTIONS", "FORMS", "MODEL_TITLES", "SINGLE_FORMS", "SLIDE_PARAMETERS", "RateForm", "predict_time"]

#: Number of one-way messages per measured time.
CONVENTIONS = {"round_trip": 2.0, "one_way": 1.0, "windowed": 1.0}


@dataclass(frozen=True)
class RateForm:
    """Model formula and its parameters.

    Parameters
    ----------
    name, title : str
        Identifier and display name.
    formula : str
        Formula in terms of the parameters.
    parameters : tuple of str
        Start-up times ``s...`` in s, rates ``r...`` in bytes/s, processes ``k...``.
    """

    name: str
    title: str
    formula: str
    parameters: tuple[str, ...]


FORMS = {
    form.name: form
    for form in (
        RateForm("postal", "postal", "s + n / r_c", ("s", "r_c")),
        RateForm("maxrate", "max-rate", "s + k n / min(r_n, k r_c)", ("s", "r_n", "r_c")),
        RateForm("refined", "refined", "s + k n / min(r_n, r_b + (k - 1) r_i)", ("s", "r_n", "r_b", "r_i")),
        RateForm(
            "refined_latency",
            "refined, with latency term",
            "max(s0, s1 + k s2) + k n / min(r_n, r_b + (k - 1) r_i)",
            ("s0", "s1", "s2", "r_n", "r_b", "r_i"),
        ),
        RateForm(
            "overload",
            "refined, with overload",
            "s0 + k s1 + max(0, k - k0) (s2 + n / r_x) + k n / min(r_n, r_b + (k - 1) r_i)",
            ("s0", "s1", "s2", "k0", "r_x", "r_n", "r_b", "r_i"),
        ),
    )
}
#: Display names of models: forms, and models that consist of several forms.
MODEL_TITLES = {name: form.title for name, form in FORMS.items()} | {
    "slides": "slides, not fitted",
    "protocols": "one set per protocol",
    "overload_protocols": "one set per protocol, with overload",
}
#: Forms of the slides, which are fitted to all sizes and to large messages.
SINGLE_FORMS = ("postal", "maxrate", "refined", "refined_latency")
#: Gropp et al., slides: Blue Waters, full ping-pong.
SLIDE_PARAMETERS = {"s": 3.26e-6, "r_n": 5.7e9, "r_b": 2.9e9, "r_i": 1.0e9}

Array = NDArray[np.float64]


def predict_time(form: str, parameters: Mapping[str, float], size_bytes: Array, processes: Array) -> Array:
    """Return the time until every process has exchanged its message.

    Parameters
    ----------
    form : str
        Key of `FORMS`.
    parameters : mapping of str to float
        Value of each parameter in s, bytes/s and processes. If ``r_m``, the memory copy bandwidth of the
        node, is specified, the rate of all forms except ``postal`` is limited to ``r_m / 2``, because each byte is
        read and written.
    size_bytes, processes : ndarray of float64, shape (cells,)
        Bytes sent by each process, and number of sending processes of the node.

    Returns
    -------
    ndarray of float64, shape (cells,)
        Times in s, in the convention of the parameters.

    Raises
    ------
    InputError
        If the form is unknown.

    References
    ----------
    Gropp, Olson, Samfass, "Modeling MPI communication performance on SMP nodes", EuroMPI 2016.
    The form ``overload`` is an addition of this project: each process beyond ``k0`` delays all processes.

    Examples
    --------
    >>> size, k = np.array([0.0, 1e6, 1e6]), np.array([1.0, 1.0, 4.0])
    >>> [round(float(t) * 1e6, 2) for t in predict_time("refined", SLIDE_PARAMETERS, size, k)]
    [3.26, 348.09, 705.01]
    """
    if form not in FORMS:
        raise unknown_name("model", form, FORMS)
    value, n, k = parameters, size_bytes, processes
    if form == "postal":
        return value["s"] + n / value["r_c"]
    process_rate = k * value["r_c"] if form == "maxrate" else value["r_b"] + (k - 1) * value["r_i"]
    rate = np.minimum(process_rate, min(value["r_n"], value.get("r_m", np.inf) / 2))
    return _start_up(form, value, n, k) + k * n / rate


def _start_up(form: str, value: Mapping[str, float], n: Array, k: Array) -> Array:
    if form == "refined_latency":
        return np.maximum(value["s0"], value["s1"] + k * value["s2"])
    if form == "overload":
        further = np.maximum(0.0, k - value["k0"])
        return value["s0"] + k * value["s1"] + further * (value["s2"] + n / value["r_x"])
    return np.full_like(n, value["s"])
