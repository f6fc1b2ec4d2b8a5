"""Helpers of all rules: the checked configuration and what a table is made of.

REQUIRED INPUTS: the merged configuration (config/README.md).
PROVIDES: `settings`, `STUDIES`, `FIGURES`, `HALF_OF_THE_CORES`; digests of code; parts of tables.
"""

import os
import sys
from pathlib import Path

from snakemake.common.configfile import load_configfile
from snakemake.utils import update_config

# Not workflow.basedir: as a module of another workflow, that is the other one's folder.
REPOSITORY = Path(str(workflow.current_basedir)).parents[1]
if Path.cwd() == REPOSITORY:
    # A folder that was moved or copied has nothing to do again.
    REPOSITORY = Path()
# The package lies beside this workflow; jobs find it as this process does.
_SOURCE = REPOSITORY / "src"
sys.path.insert(0, str(_SOURCE.resolve()))
os.environ.update(
    PYTHONPATH=os.pathsep.join(
        filter(None, [str(_SOURCE.resolve()), os.environ.get("PYTHONPATH")])
    )
)

from fabricast.config import checked_config
from fabricast.core.errors import InputError
from fabricast.figures.catalogue import figures_of
from fabricast.inputs.studies import study_names, study_tolerance
from fabricast.runtime.cuda_driver import unavailable_reason as cuda_missing
from fabricast.runtime.mpi_launch import unavailable_reason as mpi_missing
from fabricast.runtime.code_digest import modules_below, script_digest, source_digest

# A workflow that uses this one as a module may give only what differs from the default study.
_configured = load_configfile(REPOSITORY / "config" / "config.yaml")
update_config(_configured, config)
try:
    settings = checked_config(_configured)
except InputError as error:
    raise WorkflowError(str(error)) from None

PUBLISHED = REPOSITORY / "config" / "published"
STUDIES = study_names(PUBLISHED / "studies.csv")
FIGURES = {study: figures_of(study, settings) for study in STUDIES}
# Threads of a long job, so that others run beside it.
HALF_OF_THE_CORES = max(1, workflow.cores // 2)
# Parts of every table: `<results>/<study>/<part>.<table>.parquet`.
TABLE_PARTS = {}


wildcard_constraints:
    study="|".join(STUDIES),
    shard=r"\d+",
    figure="[a-z_]+",
    table="[a-z_]+",


def code(script):
    """Digest of all that a script imports from the package, so that an edit reruns the rules that use it."""
    return script_digest(
        (REPOSITORY / "workflow" / "scripts" / f"{script}.py").resolve()
    )


def kernel_code(study):
    """Digest of the kernels of a study: machine code depends on nothing else."""
    return source_digest(*modules_below(f"fabricast.{study}.kernels"))


def parts(study, part, tables, /, taken=True, **wildcards):
    """Outputs of a rule, one file a table; if taken, they are parts of the run's tables."""
    files = {table: f"<results>/{study}/{part}.{table}.parquet" for table in tables}
    for table, path in files.items():
        if found := expand(path, **wildcards) if taken else []:
            TABLE_PARTS.setdefault(table, []).extend(found)
    return files


def table_parts(table, study):
    """Parts of a table that a study makes."""
    return [
        path
        for path in TABLE_PARTS.get(table, [])
        if path.startswith(f"<results>/{study}/")
    ]


def compared_parts(table, study):
    """Parts of prediction or reference that hold both for the same cases."""
    both = set.intersection(
        *(
            {path.split(f".{name}.")[0] for path in table_parts(name, study)}
            for name in ("prediction", "reference")
        )
    )
    return [
        path
        for path in table_parts(table, study)
        if path.split(f".{table}.")[0] in both
    ]


def all_parts():
    """Parts of all tables."""
    return [path for paths in TABLE_PARTS.values() for path in paths]


def builtin_or_file(name, folder):
    """Path of a YAML file, given itself or as the name of a file in a folder of config."""
    if name.endswith((".yaml", ".yml")):
        return name
    return str(REPOSITORY / "config" / folder / f"{name}.yaml")


def is_file(topology):
    """Whether a topology is a file of the user, not a built-in name."""
    return topology.endswith((".yaml", ".yml", ".xml"))
