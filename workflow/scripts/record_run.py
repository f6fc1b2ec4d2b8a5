"""Record what ran where."""

from pathlib import Path

import yaml

from fabricast.files import write_text
from fabricast.jobs import log_to
from fabricast.provenance import run_rows
from fabricast.tables import write_table

log_to(snakemake.log[0])
write_table(run_rows(snakemake.params.config, Path(snakemake.params.repository)), "run", snakemake.output.run)
write_text(snakemake.output.config, yaml.safe_dump(snakemake.params.config, sort_keys=False))
