"""All figures in one place, one module a study: what a figure is called, shows and is drawn from.

A catalogue is read by every job of the workflow, so what draws is imported only when it draws.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from fabricast.config import Config

__all__ = ["Entry", "Read", "figures_of", "lazy_module", "readings_entry"]

#: Returns a table by its name.
Read: TypeAlias = "Callable[[str], pd.DataFrame]"


@dataclass(frozen=True)
class Entry:
    """One figure.

    Parameters
    ----------
    name : str
        Name within its study, and of its files.
    title : str
        What it shows, in a few words.
    draw : callable
        Draws it from a function that returns a table by its name, and values of the run.
    caption : str
        What a reader sees in it.
    wanted : callable, optional
        Whether a configuration has this figure; by default every one has.
    needs_simulation : bool, default False
        Whether it is drawn from the packet-level reference of the PCIe study.
    needs_claims : bool, default False
        Whether it is drawn from the verdicts on claims, which follow from all tables.
    """

    name: str
    title: str
    draw: Callable[[Read, dict[str, Any]], Figure]
    caption: str
    wanted: Callable[[Config], bool] = lambda settings: True
    needs_simulation: bool = False
    needs_claims: bool = False


def readings_entry(study: str) -> Entry:
    """Return the figure of a study that shows under which readings its claims hold.

    Examples
    --------
    >>> readings_entry("pcie").needs_claims
    True
    """
    claims = lazy_module("fabricast.figures.claims")
    return Entry(
        "readings",
        "Under which readings claims hold",
        lambda read, values: claims.plot_claim_readings(read("claim_reading"), read("claim")),
        "Below the statement of each claim one cell for each defensible reading of what its source leaves open; the "
        "table of claims on the page lists them in the same order. Framed cells are the readings that the verdict "
        "rests on. A claim holds only if it does for every framed reading; the number says for how many of those "
        "tested it does.",
        needs_claims=True,
    )


def lazy_module(name: str) -> ModuleType:
    """Return a module that is executed when something of it is first used.

    Parameters
    ----------
    name : str
        Full name.

    Examples
    --------
    >>> lazy_module("fabricast.figures.style").COLUMN_WIDTH_IN
    3.5
    """
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"no module '{name}'")
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def figures_of(study: str, settings: Config) -> dict[str, Entry]:
    """Return the figures of a study that a configuration has, by name.

    Parameters
    ----------
    study : str
        Name of the study.
    settings : Config
        The checked configuration.
    """
    entries: tuple[Entry, ...] = importlib.import_module(f"{__name__}.{study}").FIGURES
    simulated = bool(settings.pcie.simulated_sets)
    return {
        entry.name: entry for entry in entries if entry.wanted(settings) and (simulated or not entry.needs_simulation)
    }
