"""Record commit, configuration, machine and versions of the run."""

from fabricast.runtime.jobs import log_to

log_to(snakemake.log[0])

from pathlib import Path

import yaml

from fabricast.inputs.files import write_text
from fabricast.results.provenance import run_rows
from fabricast.results.tables import write_table

row = run_rows(snakemake.params.config, Path(snakemake.params.repository), snakemake.params.config_files)
write_table(row, "run", snakemake.output.run)
write_text(snakemake.output.config, yaml.safe_dump(snakemake.params.config, sort_keys=False))
