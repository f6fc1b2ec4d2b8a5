"""Forecast the copies of the user's graphs as `fabricast predict` does, with the cause of each wait."""

from fabricast.runtime.jobs import log_to

log_to(snakemake.log[0])

import pandas as pd

from fabricast.api.predictions import predict
from fabricast.pcie.tables.graphs import graphs_from_rows
from fabricast.pcie.topology.files import load_tree
from fabricast.pcie.topology.memory import with_host_memory
from fabricast.pcie.topology.tree import single_copy_rate_of
from fabricast.results.tables import read_table, write_table

name, tree = snakemake.wildcards.graph_set, with_host_memory(load_tree(snakemake.params.topology))
graphs = graphs_from_rows(tree, read_table(snakemake.input.communication))
values = dict(snakemake.params.values)
if single_copy_rate_of(tree) is None and not values.keys() & {"bandwidth", "parameters", "measurements"}:
    values["bandwidth"] = snakemake.params.bandwidth  # of the study, for a built-in topology without link speeds
times = predict(tree, graphs, **values)
rows = pd.DataFrame(times).drop(columns=["size_bytes", "start_s"])
rows = rows.assign(graph_set=name, transport=times.get("transport", "p2p"))
write_table(rows, "forecast", snakemake.output.forecast)
warnings = [(name, number, str(one.code), one.text) for number, one in enumerate(times.attrs["warnings"])]
rows = pd.DataFrame(warnings, columns=["graph_set", "number", "code", "text"])
write_table(rows, "forecast_warning", snakemake.output.forecast_warning)
