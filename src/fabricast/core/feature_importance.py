"""What explains a quantity: one meaning of importance for all studies."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

if TYPE_CHECKING:
    from sklearn.base import RegressorMixin

__all__ = ["explain_by_features"]

_FOLDS = 4
#: How often each feature is shuffled in each fold.
_REPEATS = 3


def explain_by_features(
    features: pd.DataFrame,
    quantity: NDArray[np.float64],
    groups: NDArray[np.generic],
    new_model: Callable[[], RegressorMixin],
    *,
    seed: int = 0,
) -> pd.DataFrame:
    """Learn a quantity from features and say which of them matter on groups that were not learnt from.

    Parameters
    ----------
    features : pandas.DataFrame
        One row a sample, one column a feature.
    quantity : ndarray of float64, shape (samples,)
        What is learnt.
    groups : ndarray, shape (samples,)
        Samples of one group are learnt from together or predicted together; at least two.
    new_model : callable
        Returns an estimator of scikit-learn that has learnt nothing.
    seed : int, default 0
        Of the shuffling.

    Returns
    -------
    pandas.DataFrame
        Columns feature, importance, spread (loss of R2 on unseen groups when the feature is
        shuffled, mean and standard deviation over folds), r2 (mean over folds), by importance.

    Examples
    --------
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
        shuffled = permutation_importance(model, x[test], quantity[test], n_repeats=_REPEATS, random_state=seed)
        importances.append(shuffled.importances_mean)
    table = pd.DataFrame(
        {
            "feature": features.columns,
            "importance": np.mean(importances, axis=0),
            "spread": np.std(importances, axis=0),
            "r2": float(np.mean(scores)),
        }
    )
    return table.sort_values(["importance", "feature"], ascending=[False, True], ignore_index=True)
