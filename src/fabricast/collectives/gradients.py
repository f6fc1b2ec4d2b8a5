"""Time of the collective operations of a training step, whose gradients are sent in buckets."""

from __future__ import annotations

import math

import pandas as pd

from fabricast.core.number_text import duration_text, size_text
from fabricast.nccl.costs import Operation

#: Bucket of PyTorch's DistributedDataParallel (bucket_cap_mb).
BUCKET = "25MiB"


def step_text(table: pd.DataFrame, operation: Operation, gradient_bytes: float) -> str:
    """Return how long the operations of a step last, from the forecast of one bucket.

    >>> bucket = pd.DataFrame({"size_bytes": [25 * 2**20], "time_us": [1000.0]})
    >>> step_text(bucket, Operation.ALL_REDUCE, 14e9).partition(";")[0]
    '14 GB of gradients, 535 buckets of 25 MiB: 535 ms of all_reduce in each step'
    """
    row = table.iloc[0]
    buckets = math.ceil(gradient_bytes / float(row["size_bytes"]))

    def whole(column: str) -> str:
        return duration_text(buckets * float(row[column]) * 1e-6)

    if "ring_earliest_us" in table:
        time = f"at least {whole('ring_earliest_us')} of {operation} by rings"
    else:
        time = f"{whole('time_us')} of {operation}"
        if "latest_us" in table and row["latest_us"] == row["latest_us"]:
            time += f" ({whole('earliest_us')} to {whole('latest_us')})"
    sent = f"{gradient_bytes / 1e9:.3g} GB of gradients, {buckets:,} buckets of {size_text(float(row['size_bytes']))}"
    return f"{sent}: {time} in each step; the backward pass can hide all but the last bucket"
