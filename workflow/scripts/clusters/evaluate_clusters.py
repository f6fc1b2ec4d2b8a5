"""Forecast patterns of applications on the clusters of the study and of the user."""

from fabricast.runtime.jobs import log_to

log_to(snakemake.log[0])

from fabricast.api.cluster_copies import load_cluster, predict_cluster
from fabricast.clusters.tables import PatternRun, cluster_tables, study_runs
from fabricast.results.tables import write_table

runs = study_runs()
for name, machine in snakemake.params.machines.items():
    files = [machine["description"], *machine["files"]]
    cluster = load_cluster(files, nodes=machine["nodes"] or None, nic=machine["nic"] or None)
    runs.append(PatternRun(name, machine["pattern"], predict_cluster(cluster, machine["pattern"]), user_supplied=True))
tables = cluster_tables(runs)
for name, path in snakemake.output.items():
    write_table(getattr(tables, name), name, path)
