"""Forecast the copies of the user's graph files as `fabricast predict` does, with the cause of each wait."""

from fabricast.runtime.jobs import log_to

log_to(snakemake.log[0])

import pandas as pd

from fabricast.api.predictions import predict
from fabricast.pcie.tables.graphs import graphs_from_rows
from fabricast.pcie.topology.files import load_tree
from fabricast.results.tables import read_table, write_table

name, tree = snakemake.wildcards.graph_set, load_tree(snakemake.params.topology)
graph, communication = read_table(snakemake.input.graph), read_table(snakemake.input.communication)
of_file = communication["graph"].astype(str).isin(graph.loc[graph["subset"] == "user", "graph"].astype(str))
times = predict(tree, graphs_from_rows(tree, communication[of_file].reset_index(drop=True)), **snakemake.params.values)
rows = pd.DataFrame(times).drop(columns=["size_bytes", "start_s"])
rows = rows.assign(graph_set=name, transport=times.get("transport", "p2p"))
write_table(rows, "forecast", snakemake.output.forecast)
warnings = [(name, number, str(one.code), one.text) for number, one in enumerate(times.attrs["warnings"])]
rows = pd.DataFrame(warnings, columns=["graph_set", "number", "code", "text"])
write_table(rows, "forecast_warning", snakemake.output.forecast_warning)
