"""Packet model of one link compared with published DMA rates, as table rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from fabricast.inputs.csv_files import read_csv
from fabricast.pcie.packets.dma_rates import (
    COMPLETION_HEADER_BYTES,
    dma_bytes_per_s,
    effective_rate_bytes_per_s,
    packet_gap_s,
)
from fabricast.pcie.packets.hardware import PacketHardware

__all__ = ["dma_rate_tables"]

#: Link of the measured device.
_LINK = PacketHardware(generation=3, width=8, payload_bytes=256)
#: Host on which the packet gap and the latency growth are fitted; rates of the other hosts are forecast.
_FITTED_HOST = "Xeon E5-2637v3"
#: Smaller writes are limited by the device, not by the host, and are excluded from the fit.
_LEAST_FITTED_BYTES = 512
_HEADERS = {"write_rate": _LINK.header_bytes, "read_rate": COMPLETION_HEADER_BYTES}
_SOURCE = "pcie-bench/data b2abf2f7; Neugebauer et al., SIGCOMM 2018"
_UNITS = {"Gbit/s": (1e9 / 8, "bytes/s"), "ns": (1e-9, "s")}


def dma_rate_tables(path: Path | str) -> dict[str, pd.DataFrame]:
    """Return predicted and measured DMA rates and latencies by transfer size.

    The gap after each packet is fitted to the writes of one host with at least 512 bytes. The same gap is used for the
    writes of the other hosts and for all reads. The growth of read latency with size is fitted on the same host. Each
    forecast of latency starts at the latency that the host reached with the smallest size.

    Parameters
    ----------
    path : Path or str
        CSV file with the columns host, quantity, size_bytes, value, unit.

    Returns
    -------
    dict of str to pandas.DataFrame
        Rows of the tables prediction, reference and parameter.

    Raises
    ------
    InputError
        If a column is missing, or a quantity, unit or number is invalid.
    """
    rows = []
    for row in read_csv(path, ("host", "quantity", "size_bytes", "value", "unit")):
        if row["quantity"] not in (*_HEADERS, "read_latency") or row["unit"] not in _UNITS:
            raise row.error(
                f"quantity is '{row['quantity']}' in '{row['unit']}', expected write_rate, read_rate or read_latency "
                "in Gbit/s or ns"
            )
        factor, unit = _UNITS[row["unit"]]
        rows.append((row["host"], row["quantity"], int(row.number("size_bytes")), row.number("value") * factor, unit))
    measured = pd.DataFrame(rows, columns=["host", "quantity", "size_bytes", "value", "unit"])
    fitted = measured[(measured["host"] == _FITTED_HOST) & (measured["size_bytes"] >= _LEAST_FITTED_BYTES)]
    writes = fitted[fitted["quantity"] == "write_rate"]
    gap_s = packet_gap_s(writes["size_bytes"], writes["value"], _LINK, _LINK.header_bytes)
    latency = measured[(measured["host"] == _FITTED_HOST) & (measured["quantity"] == "read_latency")]
    growth_s = float(np.polyfit(latency["size_bytes"], latency["value"], 1)[0])
    predictions = []
    for (_, quantity), group in measured.groupby(["host", "quantity"], sort=True):
        predictions += _predictions(str(quantity), group, gap_s, growth_s)
    common = pd.DataFrame(
        {
            "study": "pcie",
            "case_id": "dma." + measured["host"] + "." + measured["size_bytes"].astype(str),
            "item": "",
            "quantity": "DMA " + measured["quantity"].str.replace("_", " "),
            "unit": measured["unit"],
        }
    )
    prediction = pd.concat([common.loc[frame.index].assign(**frame) for frame in predictions], ignore_index=True)
    reference = common.assign(
        kind="measured", origin=measured["host"], value=measured["value"], spread=np.nan, tag="measured"
    )
    parameters = [
        ("packet_gap", gap_s, "s", f"fitted to writes of {_FITTED_HOST} at 512 bytes and more; {_SOURCE}"),
        ("read_latency_growth", growth_s, "s/byte", f"fitted to {_FITTED_HOST}; {_SOURCE}"),
    ]
    parameter = pd.DataFrame(
        [("pcie", "dma.nfp6000", name, value, unit, "measured", source) for name, value, unit, source in parameters],
        columns=["study", "system", "name", "value", "unit", "tag", "source"],
    )
    return {"prediction": prediction, "reference": reference, "parameter": parameter}


def _predictions(quantity: str, group: pd.DataFrame, gap_s: float, growth_s: float) -> list[pd.DataFrame]:
    """Return one frame per model with the columns model and value, for one host and quantity."""
    size = group["size_bytes"].to_numpy()
    values: dict[str, np.ndarray]
    if quantity == "read_latency":
        first = group["value"].to_numpy()[np.argmin(size)]
        header = COMPLETION_HEADER_BYTES
        wire_s = size / dma_bytes_per_s(size, _LINK, header_bytes=header)
        values = {
            "packets": first + wire_s - wire_s[np.argmin(size)],
            "packets_with_gap": first + growth_s * (size - size.min()),
        }
    else:
        header = _HEADERS[quantity]
        values = {
            "packets": dma_bytes_per_s(size, _LINK, header_bytes=header),
            "packets_with_gap": dma_bytes_per_s(size, _LINK, header_bytes=header, gap_s=gap_s),
            "published_formula": effective_rate_bytes_per_s(size, _LINK, header_bytes=header),
        }
    return [pd.DataFrame({"model": model, "value": value}, index=group.index) for model, value in values.items()]
