"""Helpers of all rules: the checked configuration and what a table is made of.

REQUIRED INPUTS: the merged configuration (config/README.md).
PROVIDES: `settings`, `STUDIES`, `code`, `table_parts`, `figure_files`.
"""

import os
import sys
from pathlib import Path

# The package lies beside this workflow; jobs find it as this process does.
_SOURCE = Path(workflow.basedir) / "src"
sys.path.insert(0, str(_SOURCE))
os.environ.update(
    PYTHONPATH=os.pathsep.join(filter(None, [str(_SOURCE), os.environ.get("PYTHONPATH")]))
)

from fabricast.config import checked_config
from fabricast.errors import InputError
from fabricast.provenance import source_digest

try:
    settings = checked_config(config)
except InputError as error:
    raise WorkflowError(str(error)) from None

STUDIES = ("pcie",)
PUBLISHED = Path(workflow.basedir) / "config" / "published"
# Figure by study: name, title, and the module-level function that draws it.
FIGURES = {
    "pcie": {
        "topology_loads": "Link loads on the tree",
        "worked_example": "Worked example",
        "slowdown": "Predicted slowdown",
        "model_differences": "Differences between models",
        "measured_probes": "Predicted against measured",
    }
}
FIGURE_FORMATS = ("svg", "pdf", "png")
# Parts of every table: `<results>/<study>/<part>.<table>.parquet`.
TABLE_PARTS = {}


wildcard_constraints:
    study="|".join(STUDIES),
    graph_set="|".join(settings.pcie.graph_sets),
    figure="[a-z_]+",
    table="[a-z_]+",


def code(*modules):
    """Digest of package modules, so that an edit to one reruns the rules that use it."""
    return source_digest(*(f"fabricast.{module}" for module in modules))


def add_parts(study, **parts_of_table):
    """Declare which files of a study make up a table."""
    for table, parts in parts_of_table.items():
        names = [f"<results>/{study}/{part}.{table}.parquet" for part in parts]
        TABLE_PARTS.setdefault(table, []).extend(names)


def table_parts(table, study=None):
    """Parts of a table, of one study or of all."""
    prefix = f"<results>/{study}/" if study else "<results>/"
    return [part for part in TABLE_PARTS[table] if part.startswith(prefix)]


def figure_files():
    """All figures in all formats."""
    return [
        f"<reports>/figures/{study}.{figure}.{ending}"
        for study, figures in FIGURES.items()
        for figure in figures
        for ending in FIGURE_FORMATS
    ]
