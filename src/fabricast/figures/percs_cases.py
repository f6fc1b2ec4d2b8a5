"""Network cases that differ only in mapping and routing."""

from __future__ import annotations

import pandas as pd


def plain_cases(case: pd.DataFrame) -> pd.DataFrame:
    """Return cases with default gateways, single links, torus and dedicated machine."""
    return case[
        (case["gateway"] == "mod")
        & (case["multiplicity"] == 1)
        & (case["placement"] == "whole")
        & case["wrap"]
        & ~case["turned"]
    ]
