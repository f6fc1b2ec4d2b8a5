"""LogGOPS models: conversion from max-rate models, netgauge estimators, exports.

All times are one-way. Hoefler et al., "LogGOPSim", LSAP 2010; Alexandrov et al., "LogGP", SPAA 1995.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.core.errors import InputError, unknown_name
from fabricast.inputs.files import read_text
from fabricast.maxrate.models import CONVENTIONS
from fabricast.maxrate.protocols import ProtocolRegressor

__all__ = ["LogGOPS", "from_maxrate", "from_netgauge", "overheads_s", "read_netgauge", "simgrid_properties"]

#: Growth factor of the overhead between consecutive sizes that indicates a new protocol.
_PROTOCOL_JUMP = 3.0


@dataclass(frozen=True)
class LogGOPS:
    """Parameters of the LogGOPS model.

    LogGP has ``O = 0`` and no ``S``; LogP also has ``G = 0``.

    Parameters
    ----------
    latency_s : float
        L: network latency in s.
    overhead_s : float
        o: CPU time in s per send or receive.
    gap_s : float
        g: smallest time in s between two messages.
    gap_s_per_byte : float
        G: time in s for each additional byte of a message.
    overhead_s_per_byte : float, default 0
        O: CPU time in s for each additional byte.
    rendezvous_bytes : float, default inf
        S: size in bytes above which messages start with a handshake.
    """

    latency_s: float
    overhead_s: float
    gap_s: float
    gap_s_per_byte: float
    overhead_s_per_byte: float = 0.0
    rendezvous_bytes: float = math.inf

    def time_s(self, size_bytes: float, messages: int = 1) -> float:
        """Return the time until the last message of one process has been received.

        Parameters
        ----------
        size_bytes : float
            Bytes of each message.
        messages : int, default 1
            Number of consecutive messages.

        Returns
        -------
        float
            Time in s from the start of the first send.

        Examples
        --------
        >>> round(LogGOPS(5e-6, 1e-6, 2e-6, 1e-9).time_s(1001, 3) * 1e6, 6)
        14.0
        """
        more = max(size_bytes - 1, 0.0)
        processor = self.overhead_s + more * self.overhead_s_per_byte
        first = self.latency_s + 2 * processor + more * self.gap_s_per_byte
        if size_bytes > self.rendezvous_bytes:
            first += 2 * (self.latency_s + 2 * self.overhead_s)
        each = max(self.gap_s + more * self.gap_s_per_byte, processor)
        return first + (messages - 1) * each

    def line(self) -> str:
        """Return the LogGOPSim command-line options, in ns.

        Examples
        --------
        >>> LogGOPS(2.5e-6, 1.5e-6, 1e-6, 6e-9, 0.0, 65535).line()
        '-L 2500 -o 1500 -g 1000 -G 6 -O 0 -S 65535'
        """
        parts = {"L": self.latency_s, "o": self.overhead_s, "g": self.gap_s}
        text = " ".join(f"-{name} {value * 1e9:.0f}" for name, value in parts.items())
        limit = "" if math.isinf(self.rendezvous_bytes) else f" -S {self.rendezvous_bytes:.0f}"
        return f"{text} -G {self.gap_s_per_byte * 1e9:.4g} -O {self.overhead_s_per_byte * 1e9:.4g}{limit}"


def from_maxrate(
    parameters: Mapping[str, float], convention: str, *, overhead_s: float = 0.0, rendezvous_bytes: float = math.inf
) -> LogGOPS:
    """Convert a max-rate model of one process to LogGOPS.

    A ping-pong determines only the sum ``L + 2 o``. The overhead must therefore be specified.

    Parameters
    ----------
    parameters : mapping of str to float
        Start-up time ``s`` or ``s0``, rate ``r_b`` or ``r_c`` and, if fitted, ``s2``. The latter is the
        inverse of the node's message rate and used as gap.
    convention : {'round_trip', 'one_way', 'windowed'}
        Convention of the times that the parameters were fitted to.
    overhead_s : float, default 0
        Overhead o in s.
    rendezvous_bytes : float, default inf
        Size in bytes above which messages start with a handshake.

    Returns
    -------
    LogGOPS
        One-way parameters.

    Raises
    ------
    InputError
        If the convention is unknown or the overhead exceeds the start-up time.

    Examples
    --------
    >>> from fabricast.maxrate.models import SLIDE_PARAMETERS
    >>> from_maxrate(SLIDE_PARAMETERS, "round_trip").line()
    '-L 1630 -o 0 -g 0 -G 0.1724 -O 0'
    """
    if convention not in CONVENTIONS:
        raise unknown_name("convention", convention, CONVENTIONS)
    messages = CONVENTIONS[convention]
    start = parameters.get("s", parameters.get("s0", 0.0)) / messages
    if not 0 <= 2 * overhead_s <= start:
        raise InputError(f"overhead is {overhead_s:g} s, expected at most half of the start-up time {start:g} s")
    rate = parameters.get("r_b", parameters.get("r_c", math.inf)) * messages
    return LogGOPS(
        start - 2 * overhead_s, overhead_s, parameters.get("s2", 0.0) / messages, 1 / rate, 0.0, rendezvous_bytes
    )


def read_netgauge(path: Path | str, *, text: str | None = None) -> pd.DataFrame:
    """Read the table of netgauge's loggp pattern.

    Parameters
    ----------
    path : Path or str
        Text with the columns size, n, PRTT(1,0,s), PRTT(n,0,s), PRTT(n,PRTT(1,0,s),s) in us.
    text : str, optional
        Content of the file, if it was read before.

    Returns
    -------
    pandas.DataFrame
        Columns size_bytes, messages, single_s, train_s, delayed_s; one row per size.

    Raises
    ------
    InputError
        If the file cannot be read or contains no such rows.
    """
    path = Path(path)
    rows = []
    for number, line in enumerate((read_text(path) if text is None else text).splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            size, count, single, train, delayed = (float(word) for word in line.split()[:5])
        except ValueError as error:
            raise InputError(f"is not a row of netgauge: {error}", path=path, line=number) from error
        if count < 2 or not 0 < single < math.inf:
            raise InputError(
                f"n is {count:g} and PRTT is {single:g}, expected n above 1 and a positive PRTT", path=path, line=number
            )
        rows.append((size, count, single * 1e-6, train * 1e-6, delayed * 1e-6))
    if not rows:
        raise InputError("contains no rows of netgauge, expected at least one", path=path)
    table = pd.DataFrame(rows, columns=["size_bytes", "messages", "single_s", "train_s", "delayed_s"])
    return table.drop_duplicates("size_bytes").sort_values("size_bytes").reset_index(drop=True)


def overheads_s(table: pd.DataFrame) -> NDArray[np.float64]:
    """Return the overhead o of every size: time of a delayed train beyond the delay."""
    per_message = (table["delayed_s"] - table["single_s"]) / (table["messages"] - 1)
    return (per_message - table["single_s"]).to_numpy(dtype=np.float64)


def from_netgauge(table: pd.DataFrame, *, most_bytes: float = 4 * 2**20) -> LogGOPS:
    """Estimate LogGOPS parameters with the method of netgauge.

    Parameters
    ----------
    table : pandas.DataFrame
        Rows returned by `read_netgauge`.
    most_bytes : float, default 4 MiB
        Size in bytes above which messages are ignored.

    Returns
    -------
    LogGOPS
        ``L = PRTT(1,0,1) / 2``; o of the smallest message; S, the last size before o jumps; g and G from
        linear fits to the trains of small and large messages.

    References
    ----------
    Hoefler et al., "Low-overhead LogGP parameter assessment for modern interconnection networks", IPDPS 2007.
    """
    table = table[table["size_bytes"] <= most_bytes]
    overhead = overheads_s(table)
    size = table["size_bytes"].to_numpy(dtype=np.float64)
    jumps = np.flatnonzero(overhead[1:] > _PROTOCOL_JUMP * overhead[:-1])
    limit = float(size[jumps[0]]) if jumps.size else math.inf
    slope = ((table["train_s"] - table["single_s"]) / (table["messages"] - 1)).to_numpy(dtype=np.float64)

    def line(inside: NDArray[np.bool_]) -> tuple[float, float]:
        if inside.sum() < 2:
            return float("nan"), float("nan")
        per_byte, intercept = np.polyfit(size[inside] - 1, slope[inside], 1, w=1 / slope[inside])
        return float(intercept), float(per_byte)

    small = line(size <= limit)
    large = line(size > limit) if jumps.size else small
    return LogGOPS(
        float(table["single_s"].iloc[0]) / 2,
        float(overhead[0]),
        small[0],
        large[1] if jumps.size else small[1],
        0.0,
        limit,
    )


def simgrid_properties(regressor: ProtocolRegressor, convention: str) -> list[str]:
    """Return a fit as SimGrid piecewise latency and bandwidth factors.

    Parameters
    ----------
    regressor : ProtocolRegressor
        Fitted model with one parameter set per protocol.
    convention : str
        Time convention of the fit.

    Returns
    -------
    list of str
        XML properties for SMPI and, as a comment, latency and bandwidth of the reference link.

    Raises
    ------
    InputError
        If the times are windowed, because these do not determine a latency.
    """
    if convention == "windowed":
        raise InputError("convention is windowed, expected round_trip or one_way to determine a latency")
    ranges = [from_maxrate(fit.parameters_, convention) for fit in regressor.regressors_]
    latency = ranges[0].latency_s
    # Concurrent messages share the rate of the link, which that of the largest messages shows.
    bandwidth = 1 / ranges[-1].gap_s_per_byte
    # SimGrid applies a factor above its threshold; breakpoints here are the first sizes of a range.
    lows = [0.0, *(cut - 1 for cut in regressor.breakpoints_)]
    factors = {
        "smpi/lat-factor": [part.latency_s / latency for part in ranges],
        "smpi/bw-factor": [1 / part.gap_s_per_byte / bandwidth for part in ranges],
    }
    lines = [f'<!-- link: bandwidth="{bandwidth:.6g}Bps" latency="{latency:.6g}s" -->']
    for name, values in factors.items():
        text = ";".join(f"{low:.0f}:{value:.6g}" for low, value in zip(lows, values, strict=True))
        lines.append(f'<prop id="{name}" value="{text}"/>')
    return lines
