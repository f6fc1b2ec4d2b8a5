"""Application patterns on clusters: node, network card and network in one forecast.

REQUIRED INPUTS: `clusters` of the configuration, config/published/collectives, maxrate_measurements.csv.
OUTPUTS: <results>/clusters/patterns.<table>.parquet.
STEPS: evaluate_clusters.
"""

# Files of the user, and the files that their descriptions of clusters name.
USER_CLUSTERS = [
    path
    for machine in settings.clusters.machines.values()
    for path in [
        machine.description,
        *files_of_cluster(machine.description),
        *machine.files,
        machine.pattern,
    ]
    if is_file(path)
]


rule evaluate_clusters:
    """Times of patterns on the clusters of the study and of the user, and errors of copies between nodes."""
    input:
        constants=PUBLISHED / "collectives" / "cluster_constants.csv",
        times=PUBLISHED / "collectives" / "cluster_times.csv",
        messages=PUBLISHED / "maxrate_measurements.csv",
        parts=PUBLISHED / "breakdown_components.csv",
        nodes=PUBLISHED / "nodes.csv",
        user_supplied=USER_CLUSTERS,
    output:
        **outputs("evaluate_clusters"),
    log:
        "<logs>/evaluate_clusters.log",
    benchmark:
        "<logs>/benchmarks/evaluate_clusters.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        contents=files_digest(USER_CLUSTERS),
        machines={
            name: machine.model_dump()
            for name, machine in settings.clusters.machines.items()
        },
        code=code(
            "clusters",
            "breakdown",
            "collectives",
            "networks",
            "machine",
            "nccl",
            "pcie",
        ),
    script:
        "../scripts/clusters/evaluate_clusters.py"
