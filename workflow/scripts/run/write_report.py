"""Write the report page."""

from fabricast.runtime.jobs import log_to

log_to(snakemake.log[0])

from pathlib import Path

from fabricast.report.page import Picture, write_report

captions = [Path(path).read_text(encoding="utf-8").strip() for path in snakemake.input.captions]
pictures = [
    Picture(Path(path), study, title, caption)
    for path, (study, title), caption in zip(snakemake.input.figures, snakemake.params.titles, captions, strict=True)
]
write_report(
    Path(snakemake.input.database),
    pictures,
    Path(snakemake.output.report),
    graph_sets=dict(snakemake.params.graph_sets),
)
