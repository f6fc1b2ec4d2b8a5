"""Evaluate every claim with the tables of this run."""

from fabricast.runtime.jobs import log_to

log_to(snakemake.log[0])

from pathlib import Path

from fabricast.results.claims import read_claims
from fabricast.results.tables import write_table
from fabricast.results.verdicts import evaluate_claims

claims = read_claims(Path(snakemake.input.claims[0]).parent)
parts: dict[str, list[Path]] = {}
for path in map(Path, snakemake.input[: -len(snakemake.input.claims)]):
    parts.setdefault(path.name.split(".")[-2], []).append(path)
for name, table in vars(evaluate_claims(claims, parts)).items():
    write_table(table, name, snakemake.output[name])
