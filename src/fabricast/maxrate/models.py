"""Models of the time in which k processes of a node each send n bytes to another node.

All are linear in the message size with a rate that the node shares among its processes.
Times and rates belong to the convention of the measurements, full round trip or one way;
`convert_time` changes times, and rates then follow from the fit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fabricast.errors import InputError

__all__ = ["CONVENTIONS", "FORMS", "SLIDE_PARAMETERS", "RateForm", "convert_time", "predict_time"]

#: Messages one way per measured time: what a rate in bytes per second divides.
CONVENTIONS = {"round_trip": 2.0, "one_way": 1.0, "windowed": 1.0}


@dataclass(frozen=True)
class RateForm:
    """A model and its parameters.

    Parameters
    ----------
    name, title : str
        Identifier and name in figures.
    formula : str
        In words of the parameters.
    parameters : tuple of str
        Start-up times ``s...`` in s and rates ``r...`` in bytes/s.
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
            "refined_latency", "refined, with latency term",
            "max(s0, s1 + k s2) + k n / min(r_n, r_b + (k - 1) r_i)", ("s0", "s1", "s2", "r_n", "r_b", "r_i"),
        ),
    )
}  # fmt: skip
#: Gropp et al., slides: Blue Waters, full ping-pong.
SLIDE_PARAMETERS = {"s": 3.26e-6, "r_n": 5.7e9, "r_b": 2.9e9, "r_i": 1.0e9}


def predict_time(
    form: str, parameters: dict[str, float], size_bytes: NDArray[np.float64], processes: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the time in which every process has exchanged its message.

    Parameters
    ----------
    form : str
        Key of `FORMS`.
    parameters : dict
        Value of each parameter, in s and bytes/s.
    size_bytes, processes : ndarray of float64, shape (cells,)
        Bytes that each process sends, and processes of the node that send.

    Returns
    -------
    ndarray of float64, shape (cells,)
        Times in s, in the convention of the parameters.

    References
    ----------
    Gropp, Olson, Samfass, "Modeling MPI communication performance on SMP nodes", EuroMPI 2016.

    Examples
    --------
    >>> size, k = np.array([0.0, 1e6, 1e6]), np.array([1.0, 1.0, 4.0])
    >>> [round(float(t) * 1e6, 2) for t in predict_time("refined", SLIDE_PARAMETERS, size, k)]
    [3.26, 348.09, 705.01]
    """
    value = parameters
    if form == "postal":
        time: NDArray[np.float64] = value["s"] + size_bytes / value["r_c"]
        return time
    if form == "maxrate":
        return value["s"] + processes * size_bytes / np.minimum(value["r_n"], processes * value["r_c"])
    rate = np.minimum(value["r_n"], value["r_b"] + (processes - 1) * value["r_i"])
    if form == "refined":
        return value["s"] + processes * size_bytes / rate
    if form == "refined_latency":
        start = np.maximum(value["s0"], value["s1"] + processes * value["s2"])
        return start + processes * size_bytes / rate
    raise InputError(f"model '{form}' is unknown, expected one of {', '.join(FORMS)}")


def convert_time(time_s: NDArray[np.float64], source: str, target: str) -> NDArray[np.float64]:
    """Convert times between conventions.

    Parameters
    ----------
    time_s : ndarray of float64
        Times in s.
    source, target : {'round_trip', 'one_way'}
        Conventions; windowed times are not those of one message and cannot be converted.

    Returns
    -------
    ndarray of float64
        Converted times.

    Raises
    ------
    InputError
        If a convention is unknown or windowed.

    Examples
    --------
    >>> float(convert_time(np.array([4e-6]), "round_trip", "one_way")[0])
    2e-06
    """
    for name in (source, target):
        if name not in CONVENTIONS:
            raise InputError(f"convention '{name}' is unknown, expected one of {', '.join(CONVENTIONS)}")
    if source == target:
        return time_s
    if "windowed" in (source, target):
        raise InputError("windowed times cannot be converted: they overlap messages")
    converted: NDArray[np.float64] = time_s * (CONVENTIONS[target] / CONVENTIONS[source])
    return converted
