"""Observe every claim in the tables of this run."""

from pathlib import Path

from fabricast.results.claims import evaluate_claims, read_claims
from fabricast.results.tables import write_table
from fabricast.runtime.jobs import log_to

log_to(snakemake.log[0])
parts: dict[str, list[Path]] = {}
for path in map(Path, snakemake.input[:-1]):
    parts.setdefault(path.name.split(".")[-2], []).append(path)
write_table(evaluate_claims(read_claims(snakemake.input.claims), parts), "claim", snakemake.output.claim)
