"""What makes the packet level slower than its bound: extra-trees on features of link loads."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.ensemble import ExtraTreesRegressor

from fabricast.core.feature_importance import explain_by_features

__all__ = ["explain_times", "load_features"]

_TREES = 300


def load_features(link_class: pd.DataFrame, case: pd.DataFrame) -> pd.DataFrame:
    """Return features of the loads of each case.

    Parameters
    ----------
    link_class, case : pandas.DataFrame
        Rows of the tables network_link_class and network_case.

    Returns
    -------
    pandas.DataFrame
        One row a case, index case_id: by class the time of the busiest link, and mean, 90th and
        99th percentile of the load by its maximum, the share of used links; the class of the
        bottleneck's lead over the others; whether routes are indirect.
    """
    parts = []
    for name, rows in link_class.groupby("class", sort=True):
        own = rows.set_index("case_id")
        largest = own["max_bytes"].where(own["max_bytes"] > 0, 1.0)
        parts.append(
            pd.DataFrame(
                {
                    f"{name}_time_s": own["time_s"], f"{name}_mean_by_max": own["mean_bytes"] / largest,
                    f"{name}_p90_by_max": own["p90_bytes"] / largest, f"{name}_p99_by_max": own["p99_bytes"] / largest,
                    f"{name}_used": own["used"] / own["links"],
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
    """Learn how much longer than its bound each case takes, and what tells it.

    Parameters
    ----------
    features : pandas.DataFrame
        As `load_features` gives.
    case : pandas.DataFrame
        Rows of the table network_case.
    simulated : pandas.Series
        Packet-level times in s, index case_id.
    seed : int
        Of the trees.

    Returns
    -------
    pandas.DataFrame
        As `fabricast.core.feature_importance.explain_by_features`, of the log ratio of time and
        bound; workload and mapping together make a group.
    """
    facts = case.set_index("case_id").loc[simulated.index]
    ratio = np.log(simulated.to_numpy() / facts["bottleneck_s"].to_numpy())
    return explain_by_features(
        features.loc[simulated.index], ratio, (facts["workload"] + facts["mapping"]).to_numpy(),
        lambda: ExtraTreesRegressor(_TREES, random_state=seed % 2**32, min_samples_leaf=2), seed=seed % 2**32,
    )  # fmt: skip
