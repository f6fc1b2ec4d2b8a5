"""Feature importance for the ratio of packet-level time to bottleneck bound."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.ensemble import ExtraTreesRegressor

from fabricast.core.feature_importance import explain_by_features


def load_features(link_class: pd.DataFrame, case: pd.DataFrame) -> pd.DataFrame:
    """Return link-load features of each case."""
    parts = []
    for name, rows in link_class.groupby("class", sort=True):
        loads = rows.set_index("case_id")
        largest = loads["max_bytes"].where(loads["max_bytes"] > 0, 1.0)
        parts.append(
            pd.DataFrame(
                {
                    f"{name}_time_s": loads["time_s"],
                    f"{name}_mean_by_max": loads["mean_bytes"] / largest,
                    f"{name}_p90_by_max": loads["p90_bytes"] / largest,
                    f"{name}_p99_by_max": loads["p99_bytes"] / largest,
                    f"{name}_used": loads["used"] / loads["links"],
                }
            )
        )
    features = pd.concat(parts, axis=1)
    times = features[[column for column in features.columns if str(column).endswith("_time_s")]].to_numpy()
    ordered = np.sort(times, axis=1)
    features["second_by_first"] = ordered[:, -2] / ordered[:, -1]
    facts = case.set_index("case_id")
    features["indirect"] = (facts["routing"] == "indirect").astype(float)
    features["floor_by_bottleneck"] = facts["floor_s"] / facts["bottleneck_s"]
    return features


def explain_times(features: pd.DataFrame, case: pd.DataFrame, simulated: pd.Series, *, seed: int) -> pd.DataFrame:
    """Explain the ratio of simulated time to bound by extra-trees regression."""
    facts = case.set_index("case_id").loc[simulated.index]
    ratio = np.log(simulated.to_numpy() / facts["bottleneck_s"].to_numpy())
    return explain_by_features(
        features.loc[simulated.index],
        ratio,
        (facts["workload"] + facts["mapping"]).to_numpy(),
        lambda: ExtraTreesRegressor(random_state=seed % 2**32, min_samples_leaf=2),
        seed=seed % 2**32,
    )
