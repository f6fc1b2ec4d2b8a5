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
#: Samples that are predicted at a time: few calls of a model, and little memory.
_BLOCK_ROWS = 100_000


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
    from sklearn.metrics import r2_score
    from sklearn.model_selection import GroupKFold

    x = features.to_numpy(dtype=np.float64)
    importances, scores = [], []
    folds = GroupKFold(n_splits=min(_FOLDS, np.unique(groups).size))
    for train, test in folds.split(x, quantity, groups):
        model = new_model().fit(x[train], quantity[train])
        predicted = model.predict(x[test])
        scores.append(r2_score(quantity[test], predicted))
        shuffled = _scores_of_shuffled(model, x[test], predicted, quantity[test], seed)
        importances.append(scores[-1] - shuffled.mean(axis=1))
    table = pd.DataFrame(
        {
            "feature": features.columns,
            "importance": np.mean(importances, axis=0),
            "spread": np.std(importances, axis=0),
            "r2": float(np.mean(scores)),
        }
    )
    return table.sort_values(["importance", "feature"], ascending=[False, True], ignore_index=True)


def _scores_of_shuffled(
    model: RegressorMixin,
    x: NDArray[np.float64],
    unchanged: NDArray[np.float64],
    quantity: NDArray[np.float64],
    seed: int,
) -> NDArray[np.float64]:
    """Return the R2 of a model for each feature and shuffling of it, shape (features, repeats).

    Shuffles as `sklearn.inspection.permutation_importance` does, which calls the model for each shuffling: a call of
    hundreds of trees takes longer than its few samples. Those that keep their value by chance stay as predicted before.
    """
    from sklearn.metrics import r2_score

    samples, features = x.shape
    # The same for each feature, each shuffled further than the one before.
    generator = np.random.RandomState(np.random.RandomState(seed).randint(np.iinfo(np.int32).max + 1))
    orders: list[NDArray[np.int64]] = []
    order = np.arange(samples)
    for _ in range(_REPEATS):
        generator.shuffle(order)
        orders.append(order.copy() if not orders else orders[-1][order])
    at_a_time = max(1, _BLOCK_ROWS // (samples * _REPEATS))
    scores = []
    for first in range(0, features, at_a_time):
        column = np.repeat(np.arange(first, min(first + at_a_time, features)), _REPEATS)
        value = x.T[column[:, np.newaxis], np.tile(orders, (column.size // _REPEATS, 1))]
        shuffle, row = np.nonzero(value != x.T[column])
        block = x[row]
        block[np.arange(row.size), column[shuffle]] = value[shuffle, row]
        predicted = np.tile(unchanged, (column.size, 1))
        if row.size:
            predicted[shuffle, row] = model.predict(block)
        truth = np.broadcast_to(quantity, predicted.shape)
        scores.append(r2_score(truth.T, predicted.T, multioutput="raw_values").reshape(-1, _REPEATS))
    return np.concatenate(scores)
