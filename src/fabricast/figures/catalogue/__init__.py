"""Catalogue of all figures, one module per study: name, title, tables and caption.

Every job of the workflow imports the catalogue. Plotting modules are therefore imported only when a figure is drawn.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from fabricast.config import Config


#: Function that returns a table by its name.
Read: TypeAlias = "Callable[[str], pd.DataFrame]"


@dataclass(frozen=True)
class Entry:
    """Description of one figure.

    Parameters
    ----------
    name : str
        Name within its study, also used in file names.
    title : str
        Short title.
    draw : callable
        Function that draws the figure. Its arguments are a function that returns a table by its name, and the
        values of the run.
    caption : str
        Caption.
    wanted : callable, optional
        Predicate on the configuration: whether a run has this figure. By default every run has it.
    needs_simulation : bool, default False
        Whether the figure requires the packet-level reference of the PCIe study.
    needs_claims : bool, default False
        Whether the figure requires the verdicts on claims, which depend on all tables.
    """

    name: str
    title: str
    draw: Callable[[Read, dict[str, Any]], Figure]
    caption: str
    wanted: Callable[[Config], bool] = lambda settings: True
    needs_simulation: bool = False
    needs_claims: bool = False


def readings_entry(study: str) -> Entry:
    """Return the figure of claim verdicts by interpretation of the source.

    >>> readings_entry("pcie").needs_claims
    True
    """
    claims = lazy_module("fabricast.figures.claims")
    return Entry(
        "readings",
        "Claims over all readings of their sources",
        lambda read, values: claims.plot_claim_readings(read("claim_reading"), read("claim")),
        "Values of this run over the listed readings of each source, relative to the printed value. Full marks are the "
        "primary readings, which decide the verdict; the number counts the readings for which the statement holds.",
        needs_claims=True,
    )


def lazy_module(name: str) -> ModuleType:
    """Return a module that is executed at the first access to one of its attributes.

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


#: Modules of this folder that are no study of the publications or of this project.
_OTHERS = ("captions", "your_machine")


def studies_with_figures() -> list[str]:
    """Return the names of the studies that have figures.

    >>> studies_with_figures()[:2]
    ['breakdown', 'clusters']
    """
    return sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*.py") if path.stem not in _OTHERS)


def entries_of(study: str) -> tuple[Entry, ...]:
    """Return all figures of a study, also those that a configuration may leave out."""
    entries: tuple[Entry, ...] = importlib.import_module(f"{__name__}.{study}").FIGURES
    return entries


def figures_of(study: str, settings: Config) -> dict[str, Entry]:
    """Return the figures of a study in a configuration, by name."""
    entries = entries_of(study)
    simulated = bool(settings.pcie.simulated_sets)
    return {
        entry.name: entry for entry in entries if entry.wanted(settings) and (simulated or not entry.needs_simulation)
    }
