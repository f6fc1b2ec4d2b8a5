"""Functions of users have panels of their own in the figures of errors, above those of the paper's models."""

import numpy as np
import pandas as pd
import pytest

from fabricast.figures.pcie.validation import plot_error_distribution, plot_predicted_simulated
from fabricast.pcie.models.catalogue import MODELS, VALIDATED


def titles(figure):
    return [axes.get_title() for axes in figure.axes if axes.get_title()]


@pytest.mark.parametrize(("functions", "height"), [([], 3.9), (["mymodel:rates"], 5.2)])
def test_functions_of_users_have_panels(functions, height):
    models = [*VALIDATED, *functions]
    edges = np.linspace(-0.1, 0.1, 21)
    rows = pd.DataFrame({"lower": edges[:-1], "upper": edges[1:], "communications": 5})
    histogram = pd.concat([rows.assign(model=name, subset="mine.all", origin="packets.no_split") for name in models])
    figure = plot_error_distribution(histogram, "mine.all", "packets.no_split", 0.15)
    of_paper = [MODELS[name].title for name in VALIDATED]
    assert titles(figure) == [*functions, *of_paper] and figure.get_figheight() == height
    times = pd.DataFrame({"reference": np.geomspace(1e-3, 1e-2, 40), "predicted": np.geomspace(1e-3, 1e-2, 40)})
    comparison = pd.concat([times.assign(model=name, origin="packets.no_split") for name in models])
    assert titles(plot_predicted_simulated(comparison, "mine", "packets.no_split", 0.15)) == [*functions, *of_paper]
