#!/usr/bin/env python3
"""update_readme.py [DATABASE]: write the claims of a default study to docs and README.md.

The claims of a finished run go to docs/default_claims.csv and README.md. Without a database, README.md is rewritten
from docs/default_claims.csv; a test compares both files.
"""

import csv
import sys
from collections import Counter
from pathlib import Path

import duckdb

from fabricast.results.claim_record import VERDICT_WORDS, bound_text, headline, holds_text, observed_text
from fabricast.results.claims import EVIDENCE

REPOSITORY = Path(__file__).parents[1]
CLAIMS = REPOSITORY / "docs" / "default_claims.csv"
README = REPOSITORY / "README.md"
BEGIN, END = "<!-- results: written by scripts/update_readme.py -->\n", "<!-- end of results -->\n"
#: Claims of the table in README.md with short descriptions.
SHOWN = {
    "pcie_staggered_probes": "beyond: staggered copies between 8 GPUs on two machines with two switches, largest error",
    "pcie_all_to_all_probes": "beyond: all-to-all copies on these and on paired virtual switches, largest error",
    "pcie_within_fifteen_percent": "SC16: communications within ±15 %",
    "pcie_example_step_two": "SC16: the example ends after",
    "pcie_example_data_remaining": "SC16: remaining data after the first step of the example",
    "pcie_schedule_3d_asynchronous": "SC16: rank of the published schedule of a 3D halo exchange",
    "breakdown_latency_within_five_percent": "Breaking Band: error of the modelled latency",
    "maxrate_node_rate": "Gropp: rate of a node of Blue Waters",
    "maxrate_worst_error": "Gropp: largest error of the slides' parameters",
    "maxrate_unseen_processes": "beyond: median error for left-out process counts, worst data set",
    "gpucentric_regret": "beyond: largest cost of a wrong choice of the selector",
    "gpucentric_g06": "Froening: MPI is faster than RMA and GGAS from GPU memory for large payloads",
    "gpucentric_g12": "Froening: lowest energy of in-kernel synchronisation relative to CPU control",
    "percs_random_nodes_4d_64": "SC11: time of the next best mapping relative to random nodes, 4D stencil",
    "percs_random_nodes_2d_64": "SC11: time of the next best mapping relative to random nodes, 2D stencil",
    "percs_searched_mapping": "beyond: time of the busiest link with a searched mapping",
}


def export(database: Path) -> None:
    """Write the claims of a run without machine-dependent columns."""
    with duckdb.connect(str(database), read_only=True) as connection:
        connection.sql(
            "SELECT claim, study, statement, of_ours, relation, low, high, unit, observed, verdict, evidence, "
            "readings, holds_in, share_of_draws, shown_to_fail FROM claim ORDER BY study, claim"
        ).write_csv(str(CLAIMS))


def results(claims: list[dict[str, str]]) -> str:
    """Return the section of README.md that is generated from the claims."""
    of = {row["claim"]: row for row in claims}
    first = headline((row["verdict"], row["evidence"], row["of_ours"] == "true") for row in claims)
    lines = [
        f"The default study: {first}. Selected claims:",
        "",
        "| claim | expected | this run | verdict | evidence | holds in |",
        "|---|---|---|---|---|---|",
    ]
    for name, text in SHOWN.items():
        row = of[name]
        observed = observed_text(_number(row["observed"]), row["unit"])
        cells = [
            text, bound_text(row["relation"], _number(row["low"]), _number(row["high"]), row["unit"]), observed,
            VERDICT_WORDS[row["verdict"]], row["evidence"].replace("_", " "),
            holds_text(int(row["readings"]), _number(row["holds_in"]), _number(row["share_of_draws"])) or "one reading",
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", *_evidence_lines(claims)]) + "\n"


def _number(text: str) -> float | None:
    return float(text) if text else None


def _evidence_lines(claims: list[dict[str, str]]) -> list[str]:
    """Return the counts by verdict and evidence as lines of a table."""
    verdicts = [verdict for verdict in VERDICT_WORDS if any(row["verdict"] == verdict for row in claims)]
    lines = [
        f"| evidence | {' | '.join(VERDICT_WORDS[verdict] for verdict in verdicts)} |",
        f"|---|{'---|' * len(verdicts)}",
    ]
    counts = Counter((row["evidence"], row["verdict"]) for row in claims)
    for evidence in EVIDENCE:
        cells = [str(counts[evidence, verdict] or "") for verdict in verdicts]
        lines.append(f"| {evidence.replace('_', ' ')} | {' | '.join(cells)} |")
    return lines


def with_results(readme: str, claims: list[dict[str, str]]) -> str:
    """Return README.md with an updated section of results."""
    before, rest = readme.split(BEGIN)
    return before + BEGIN + "\n" + results(claims) + "\n" + END + rest.split(END)[1]


def read_claims() -> list[dict[str, str]]:
    """Return the claims of the last recorded default study."""
    with CLAIMS.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def main() -> None:
    """Export the claims if a database is specified, then write README.md."""
    if len(sys.argv) > 1:
        export(Path(sys.argv[1]))
    README.write_text(with_results(README.read_text(encoding="utf-8"), read_claims()), encoding="utf-8")


if __name__ == "__main__":
    main()
