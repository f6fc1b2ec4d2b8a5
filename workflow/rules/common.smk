"""Helpers of all rules: the checked configuration and what a table is made of.

REQUIRED INPUTS: the merged configuration (config/README.md).
PROVIDES: `settings`, `STUDIES`, `FIGURES`, `HALF_OF_THE_CORES`; digests of code; parts of tables.
"""

import os
import subprocess
import sys
from pathlib import Path

from snakemake.common.configfile import load_configfile
from snakemake.utils import update_config

# Not workflow.basedir: as a module of another workflow, that is the other one's folder.
REPOSITORY = Path(str(workflow.current_basedir)).parents[1]
if Path.cwd() == REPOSITORY:
    # A folder that was moved or copied has nothing to do again.
    REPOSITORY = Path()
# Apptainer as root asks for all capabilities; a root without some, as in a container, has to name those it lacks.
if (
    "apptainer" in {str(one) for one in workflow.deployment_settings.deployment_method}
    and os.geteuid() == 0
):
    os.environ.setdefault(
        "APPTAINER_DROP_CAPS",
        subprocess.run(
            [sys.executable, REPOSITORY / "containers" / "missing_capabilities.py"],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout.strip(),
    )
# Jobs import the package from the folder src of this repository, as this process does.
_SOURCE = REPOSITORY / "src"
sys.path.insert(0, str(_SOURCE.resolve()))
os.environ.update(
    PYTHONPATH=os.pathsep.join(
        filter(None, [str(_SOURCE.resolve()), os.environ.get("PYTHONPATH")])
    )
)

from fabricast.collectives.evidence.runs import (
    unavailable_reason as nccl_tests_missing,
)
from fabricast.config import checked_config
from fabricast.core.errors import InputError
from fabricast.figures.catalogue import figures_of
from fabricast.inputs.cluster_files import files_of_cluster
from fabricast.inputs.studies import study_names, study_tolerance
from fabricast.pcie.models.user_model import named_function
from fabricast.runtime.cuda_driver import unavailable_reason as cuda_missing
from fabricast.runtime.mpi_launch import unavailable_reason as mpi_missing
from fabricast.runtime.code_digest import code_digest, files_digest

# Snakemake does not quote the path of the interpreter in the commands of jobs.
if set(sys.executable) & set(" \t'\"$;*()&\\{}`|<>?"):
    raise WorkflowError(
        f"the path of Python is {sys.executable!r}, expected one without blanks and characters of shells: move the folder"
    )

# A workflow that uses this one as a module may set only what differs from the default study.
_configured = load_configfile(REPOSITORY / "config" / "config.yaml")
# Graph sets of the published study; all others are the user's.
STUDY_SETS = set(_configured["pcie"]["graph_sets"])
update_config(_configured, config)
try:
    settings = checked_config(_configured)
    # A function of a user that cannot be imported ends the run before its first job.
    for _model in settings.pcie.models:
        if ":" in _model:
            named_function(_model)
except InputError as error:
    raise WorkflowError(str(error)) from None

PUBLISHED = REPOSITORY / "config" / "published"
STUDIES = study_names(PUBLISHED / "studies.csv")
FIGURES = {study: figures_of(study, settings) for study in STUDIES}
# Threads of a long job, so that other jobs run at the same time.
HALF_OF_THE_CORES = max(1, workflow.cores // 2)
# What every script that writes tables uses of the package's results.
TABLE_LAYER = [
    f"results/{name}"
    for name in ("tables.py", "schema.sql", "connections.py", "key_order.py")
]


wildcard_constraints:
    study="|".join(STUDIES),
    shard=r"\d+",
    figure="[a-z_]+",
    table="[a-z_]+",


def code(*places):
    """Digest of the shared layers and of folders of the package, so that an edit reruns the rules that use them."""
    return code_digest("core", "inputs", "runtime", *TABLE_LAYER, *places)


def builtin_or_file(name, folder):
    """Path of a YAML file, given itself or as the name of a file in a folder of config."""
    if name.endswith((".yaml", ".yml")):
        return name
    return str(REPOSITORY / "config" / folder / f"{name}.yaml")


def is_file(topology):
    """Whether a topology is a file of the user, not a built-in name."""
    return Path(topology).suffix != ""
