"""Permutation importance of features, for all studies."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

if TYPE_CHECKING:
    from sklearn.base import RegressorMixin


_FOLDS = 4
#: Permutations of each feature in each fold.
_REPEATS = 3


def explain_by_features(
    features: pd.DataFrame,
    quantity: NDArray[np.float64],
    groups: NDArray[np.generic],
    new_model: Callable[[], RegressorMixin],
    *,
    seed: int = 0,
) -> pd.DataFrame:
    """Estimate permutation feature importance by grouped cross-validation.

    Shapes: quantity (samples,).

    >>> from sklearn.linear_model import LinearRegression
    >>> x = pd.DataFrame({"determined": np.arange(20.0), "noise": np.cos(np.arange(20.0))})
    >>> table = explain_by_features(x, 2 * x["determined"].to_numpy(), np.arange(20) % 7, LinearRegression)
    >>> table["feature"].tolist(), bool(table["importance"][1] < 1e-9)
    (['determined', 'noise'], True)
    """
    from sklearn.inspection import permutation_importance
    from sklearn.model_selection import GroupKFold

    x = features.to_numpy(dtype=np.float64)
    importances, scores = [], []
    folds = GroupKFold(n_splits=min(_FOLDS, np.unique(groups).size))
    for train, test in folds.split(x, quantity, groups):
        model = new_model().fit(x[train], quantity[train])
        scores.append(model.score(x[test], quantity[test]))
        permuted = permutation_importance(model, x[test], quantity[test], n_repeats=_REPEATS, random_state=seed)
        importances.append(permuted.importances_mean)
    table = pd.DataFrame(
        {
            "feature": features.columns,
            "importance": np.mean(importances, axis=0),
            "spread": np.std(importances, axis=0),
            "r2": float(np.mean(scores)),
        }
    )
    return table.sort_values(["importance", "feature"], ascending=[False, True], ignore_index=True)
