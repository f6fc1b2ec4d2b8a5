"""Feature importance: cross-validated by group."""

import numpy as np
import pandas as pd
from sklearn.ensemble import ExtraTreesRegressor

from fabricast.core.feature_importance import explain_by_features


def test_informative_features_rank_first_and_constant_features_have_no_importance():
    generator = np.random.default_rng(7)
    features = pd.DataFrame(generator.normal(size=(120, 4)), columns=list("abcd")).assign(d=1.0)
    quantity = (features["a"] - 2 * features["c"] ** 2 + 0.1 * generator.normal(size=120)).to_numpy()
    table = explain_by_features(
        features, quantity, np.arange(120) % 9, lambda: ExtraTreesRegressor(50, random_state=3), seed=11
    ).set_index("feature")
    assert set(table.index[:2]) == {"a", "c"}
    assert table.loc["d", "importance"] == 0.0
    assert table["r2"].nunique() == 1
    assert 0.5 < table["r2"].iloc[0] < 1.0
