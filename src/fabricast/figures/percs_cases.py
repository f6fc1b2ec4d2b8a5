"""Which cases of the study of networks pictures compare: those that differ in mapping and routing alone."""

from __future__ import annotations

import pandas as pd

__all__ = ["plain_cases"]


def plain_cases(case: pd.DataFrame) -> pd.DataFrame:
    """Cases with default gateways, single links, closed grids, on a machine of their own."""
    return case[
        (case["gateway"] == "mod")
        & (case["multiplicity"] == 1)
        & (case["placement"] == "whole")
        & case["wrap"]
        & ~case["turned"]
    ]
