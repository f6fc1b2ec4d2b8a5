"""Search mappings for direct routing."""

from fabricast.runtime.jobs import log_to, progress_of

log_to(snakemake.log[0])

from fabricast.percs.tables import search_rows
from fabricast.results.tables import write_table

percs = snakemake.params.percs
with progress_of("trying swaps", percs["proposals"] * len(percs["searched"])) as advance:
    rows = search_rows(
        percs["searched"],
        proposals=percs["proposals"],
        packet_bytes=percs["packet_kib"] * 1024,
        seed=snakemake.params.seed,
        progress=advance,
    )
write_table(rows, "network_search", snakemake.output.network_search)
