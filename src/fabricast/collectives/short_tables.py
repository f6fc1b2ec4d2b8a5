"""Tables of forecasts as short text, for the display of results in Python."""

from __future__ import annotations

import pandas as pd

from fabricast.core.number_text import number_text, size_text

_COLUMNS = ("time_us", "bus_gb_per_s", "earliest_us", "latest_us", "measured_us", "algorithm", "protocol", "limit")


def short_table(table: pd.DataFrame) -> str:
    """Return the columns of a forecast that answer its question, with rounded numbers.

    >>> print(short_table(pd.DataFrame({"size_bytes": [1 << 20], "time_us": [138.123], "channels": [4]})))
     size time_us
    1 MiB   138.1
    """
    shown = pd.DataFrame({"size": [size_text(float(size)) for size in table["size_bytes"]]})
    for name in _COLUMNS:
        if name in table:
            values = table[name].tolist()
            shown[name] = [one if isinstance(one, str) else number_text(one) for one in values]
    return shown.to_string(index=False)
