"""Feature importance for the ratio of packet-level time to bottleneck bound."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.ensemble import ExtraTreesRegressor

from fabricast.core.feature_importance import explain_by_features

__all__ = ["explain_times", "load_features"]


def load_features(link_class: pd.DataFrame, case: pd.DataFrame) -> pd.DataFrame:
    """Return link-load features of each case.

    Parameters
    ----------
    link_class, case : pandas.DataFrame
        Rows of the tables network_link_class and network_case.

    Returns
    -------
    pandas.DataFrame
        One row per case with index case_id. By link class: time of the busiest link in s; mean, 90th and
        99th percentile of the load divided by the maximum; share of used links. By case: time of the
        second-slowest class divided by that of the slowest; whether routes are indirect; even-load time
        divided by bottleneck time.
    """
    parts = []
    for name, rows in link_class.groupby("class", sort=True):
        loads = rows.set_index("case_id")
        largest = loads["max_bytes"].where(loads["max_bytes"] > 0, 1.0)
        parts.append(
            pd.DataFrame(
                {
                    f"{name}_time_s": loads["time_s"], f"{name}_mean_by_max": loads["mean_bytes"] / largest,
                    f"{name}_p90_by_max": loads["p90_bytes"] / largest,
                    f"{name}_p99_by_max": loads["p99_bytes"] / largest,
                    f"{name}_used": loads["used"] / loads["links"],
                }
            )
        )  # fmt: skip
    features = pd.concat(parts, axis=1)
    times = features[[column for column in features.columns if str(column).endswith("_time_s")]].to_numpy()
    ordered = np.sort(times, axis=1)
    features["second_by_first"] = ordered[:, -2] / ordered[:, -1]
    facts = case.set_index("case_id")
    features["indirect"] = (facts["routing"] == "indirect").astype(float)
    features["floor_by_bottleneck"] = facts["floor_s"] / facts["bottleneck_s"]
    return features


def explain_times(features: pd.DataFrame, case: pd.DataFrame, simulated: pd.Series, *, seed: int) -> pd.DataFrame:
    """Explain the ratio of simulated time to bound by extra-trees regression.

    Parameters
    ----------
    features : pandas.DataFrame
        Features returned by `load_features`.
    case : pandas.DataFrame
        Rows of the table network_case.
    simulated : pandas.Series
        Packet-level times in s, index case_id.
    seed : int
        Seed of the trees.

    Returns
    -------
    pandas.DataFrame
        Result of `fabricast.core.feature_importance.explain_by_features` for the logarithm of the ratio.
        Cases with the same workload and mapping are one group.
    """
    facts = case.set_index("case_id").loc[simulated.index]
    ratio = np.log(simulated.to_numpy() / facts["bottleneck_s"].to_numpy())
    return explain_by_features(
        features.loc[simulated.index], ratio, (facts["workload"] + facts["mapping"]).to_numpy(),
        lambda: ExtraTreesRegressor(random_state=seed % 2**32, min_samples_leaf=2), seed=seed % 2**32,
    )  # fmt: skip
