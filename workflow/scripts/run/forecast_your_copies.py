"""Forecast the copies of the user's graphs as `fabricast predict` does, with the cause of each wait."""

from fabricast.runtime.jobs import log_to

log_to(snakemake.log[0])

import pandas as pd

from fabricast.api.machine_inputs import load_machine
from fabricast.api.predictions import predict
from fabricast.core.errors import UnknownSpeedError
from fabricast.pcie.tables.graphs import graphs_from_rows
from fabricast.results.tables import read_table, write_table

name, values = snakemake.wildcards.graph_set, snakemake.params.values
machine = load_machine(snakemake.params.topology)
graphs = graphs_from_rows(machine.with_memory, read_table(snakemake.input.communication))
try:
    times = predict(machine, graphs, **values)
except UnknownSpeedError:
    if not machine.tree.builtin:
        raise
    # Built-in topologies without a link speed have the bandwidth of the study.
    times = predict(machine, graphs, **values | {"bandwidth": snakemake.params.bandwidth})
rows = pd.DataFrame(times).drop(columns=["size_bytes", "start_s"])
rows = rows.assign(graph_set=name, transport=times.get("transport", "p2p"))
write_table(rows, "forecast", snakemake.output.forecast)
warnings = [(name, number, str(one.code), one.text) for number, one in enumerate(times.attrs["warnings"])]
rows = pd.DataFrame(warnings, columns=["graph_set", "number", "code", "text"])
write_table(rows, "forecast_warning", snakemake.output.forecast_warning)
