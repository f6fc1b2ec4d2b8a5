"""Draw the verdicts on the claims of every study by interpretation."""

from fabricast.runtime.jobs import log_to

log_to(snakemake.log[0])

import importlib

from fabricast.figures.style import save_entries
from fabricast.results.tables import read_table

reading, claim = read_table(snakemake.input.reading), read_table(snakemake.input.claim)
for study, names in snakemake.params.figures.items():
    catalogue = importlib.import_module(f"fabricast.figures.catalogue.{study}")
    own = {"claim_reading": reading[reading["claim"].str.startswith(f"{study}_")], "claim": claim}
    files = [path for path in snakemake.output if f"/{study}." in path]
    save_entries([e for e in catalogue.FIGURES if e.name in names], own.__getitem__, {}, files)
