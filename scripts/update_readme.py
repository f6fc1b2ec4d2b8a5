#!/usr/bin/env python3
"""update_readme.py [DATABASE]: take the claims of a finished default study into docs/default_claims.csv and README.md.

Without a database, README.md is written anew from docs/default_claims.csv; a test compares both.
"""

import csv
import sys
from collections import Counter
from pathlib import Path

import duckdb

REPOSITORY = Path(__file__).parents[1]
CLAIMS = REPOSITORY / "docs" / "default_claims.csv"
README = REPOSITORY / "README.md"
BEGIN, END = "<!-- results: written by scripts/update_readme.py -->\n", "<!-- end of results -->\n"
VERDICTS = {"reproduced": "reproduced", "deviates": "deviates", "not_testable": "not testable"}
#: Claims of the table in README.md: in few words, factor and unit of the observed value, what the verdict rests on.
SHOWN = {
    "pcie_example_step_one": ("SC16 example: the first step ends at 36 ms", 1e3, "ms", "definition of the model"),
    "pcie_example_data_remaining": (
        "SC16 example: 128 MB remain after it", 1, "MiB", "the slide prints what has moved",
    ),
    "pcie_schedule_3d_asynchronous": (
        "of 1,679,616 schedules of a 3D halo exchange the shown one is the fastest", 1, "(rank)", "all were evaluated",
    ),
    "pcie_within_fifteen_percent": (
        "95 % of communications within ±15 %, as the slides are read", 100, "%", "our packet-level simulator",
    ),
    "pcie_within_fifteen_percent_round_robin": (
        "the same, with round-robin sharing upstream", 100, "%", "our packet-level simulator",
    ),
    "pcie_staggered_probes": ("staggered copies on 8-GPU machines: largest error", 100, "%", "measured by others"),
    "pcie_all_to_all_probes": (
        "all-to-all copies on the same machines: largest error", 100, "%",
        "measured by others; copy engines are not modelled",
    ),
    "breakdown_latency_within_five_percent": (
        "modelled latency of a small message within 5 %: error", 100, "%", "quoted components and observation",
    ),
    "maxrate_node_rate": ("a node of Blue Waters reaches 5.7 GB/s", 1e-9, "GB/s", "fitted to an independent run"),
    "maxrate_protocol_model": (
        "beyond the paper: median error below 5 % on all data sets; largest", 100, "%", "ten public data sets",
    ),
    "gpucentric_regret": (
        "a wrong choice of the selector costs less than 10 %: largest", 100, "%", "measured by others",
    ),
    "percs_random_nodes_4d_64": (
        "random nodes are best with direct routes (4D stencil): next best takes", 1, "times as long",
        "exact link loads",
    ),
    "percs_random_nodes_2d_64": ("the same for the 2D stencil", 1, "times as long", "exact link loads"),
    "percs_searched_mapping": (
        "beyond the paper: a searched mapping takes at most 18 ms", 1e3, "ms", "exact link loads",
    ),
}  # fmt: skip


def export(database: Path) -> None:
    """Write the claims of a run, without what differs from machine to machine."""
    with duckdb.connect(str(database), read_only=True) as connection:
        connection.sql(
            "SELECT claim, study, statement, expected, tolerance, observed, verdict FROM claim ORDER BY study, claim"
        ).write_csv(str(CLAIMS))


def results(claims: list[dict[str, str]]) -> str:
    """Return the part of README.md that follows from the claims."""
    of = {row["claim"]: row for row in claims}
    counts = Counter(row["verdict"] for row in claims)
    reproduced, deviating, rest = (counts[name] for name in VERDICTS)
    shown = f"{reproduced} are reproduced, {deviating} deviate, {rest} are not testable"
    lines = [
        f"The default study checks {len(claims)} claims: {shown}. Some of them:",
        "",
        "| what is claimed | this run | verdict | what the verdict rests on |",
        "|---|---|---|---|",
    ]
    for name, (text, factor, unit, basis) in SHOWN.items():
        value = float(of[name]["observed"]) * factor
        lines.append(f"| {text} | {value:.4g} {unit} | {VERDICTS[of[name]['verdict']]} | {basis} |")
    return "\n".join(lines) + "\n"


def with_results(readme: str, claims: list[dict[str, str]]) -> str:
    """Return README.md with its results written anew."""
    before, rest = readme.split(BEGIN)
    return before + BEGIN + "\n" + results(claims) + "\n" + END + rest.split(END)[1]


def read_claims() -> list[dict[str, str]]:
    """Return the claims of the last default study that was recorded."""
    with CLAIMS.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def main() -> None:
    """Export if a database is named, then write README.md."""
    if len(sys.argv) > 1:
        export(Path(sys.argv[1]))
    README.write_text(with_results(README.read_text(encoding="utf-8"), read_claims()), encoding="utf-8")


if __name__ == "__main__":
    main()
