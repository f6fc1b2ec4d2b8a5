"""Export the database and describe the files of the run as an RO-Crate."""

from fabricast.runtime.jobs import log_to

log_to(snakemake.log[0])

from pathlib import Path

from fabricast.results.research_crate import export_database, write_crate

database = Path(snakemake.input.database)
export_database(database, Path(snakemake.output.export))
files = [Path(name) for name in snakemake.input] + [p for p in Path(snakemake.output.export).iterdir() if p.is_file()]
write_crate(Path.cwd(), files, Path(snakemake.params.repository), Path(snakemake.output.crate))
