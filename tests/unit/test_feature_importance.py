"""Importance of features is that of scikit-learn, in fewer calls of the model."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.inspection import permutation_importance
from sklearn.model_selection import GroupKFold

from fabricast.core import feature_importance
from fabricast.core.feature_importance import explain_by_features


@pytest.mark.parametrize("rows_at_a_time", [1, 100, 100_000])
def test_importances_are_those_of_scikit_learn(rows_at_a_time, monkeypatch):
    monkeypatch.setattr(feature_importance, "_BLOCK_ROWS", rows_at_a_time)
    generator = np.random.default_rng(7)
    features = pd.DataFrame(generator.normal(size=(60, 5)), columns=list("abcde"))
    # Most shuffles change nothing, or nothing at all.
    features = features.assign(d=features["d"] > 1, e=1.0).astype(float)
    quantity = (features["a"] - 2 * features["c"] ** 2 + 0.1 * generator.normal(size=60)).to_numpy()
    groups = np.arange(60) % 9

    def new_model():
        return ExtraTreesRegressor(20, random_state=3)

    expected, scores = [], []
    for train, test in GroupKFold(n_splits=4).split(features, quantity, groups):
        model = new_model().fit(features.to_numpy()[train], quantity[train])
        scores.append(model.score(features.to_numpy()[test], quantity[test]))
        found = permutation_importance(model, features.to_numpy()[test], quantity[test], n_repeats=3, random_state=11)
        expected.append(found.importances_mean)
    table = explain_by_features(features, quantity, groups, new_model, seed=11).set_index("feature")
    np.testing.assert_allclose(
        table.loc[list("abcde"), "importance"], np.mean(expected, axis=0), rtol=1e-12, atol=1e-12
    )
    np.testing.assert_allclose(table.loc[list("abcde"), "spread"], np.std(expected, axis=0), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(table["r2"], np.mean(scores), rtol=1e-12)
