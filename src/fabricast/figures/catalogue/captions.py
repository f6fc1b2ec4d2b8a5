"""Caption files for Snakemake's report, one per figure, written from the catalogue."""

from __future__ import annotations

import importlib

from fabricast.core.resources import published
from fabricast.inputs.studies import study_names


def caption_files() -> dict[str, str]:
    """Return the text of the caption file of every figure of the catalogue, by path below workflow/report."""
    return {
        f"{study}/{entry.name}.rst": entry.caption + "\n"
        for study in (*study_names(published() / "studies.csv"), "your_machine")
        for entry in importlib.import_module(f"fabricast.figures.catalogue.{study}").FIGURES
    }
