"""The study of two-level direct networks: hot-spots, mappings, routings.

REQUIRED INPUTS: `percs` of the configuration.
OUTPUTS: <results>/percs/<part>.<table>.parquet, declared by `add_parts` below.
STEPS: count_percs_links, evaluate_percs_loads, simulate_percs_packets (simulated reference), compare_percs_packets,
search_percs_mappings.
"""

PERCS_LOADS = ("network_case", "network_link_class", "network_link_histogram")
PERCS_PACKETS = ("prediction", "reference", "error_feature")
add_parts(
    "percs",
    network_count=["links"],
    **{table: [f"loads.{n}" for n in PERCS_SHARDS] for table in PERCS_LOADS},
)
add_parts("percs", **{table: ["packets"] for table in PERCS_PACKETS})
add_parts("percs", network_search=["searched"])


rule count_percs_links:
    """Directed links by class, for machines of every size."""
    output:
        network_count="<results>/percs/links.network_count.parquet",
    log:
        "<logs>/count_percs_links.log",
    conda:
        "../../envs/environment.yaml"
    params:
        code=code("percs.percs_tables", "tables"),
    script:
        "../scripts/count_percs_links.py"


rule evaluate_percs_loads:
    """Link loads of a shard of all workloads, mappings, routings, rules of gateways and placements."""
    output:
        **{
            table: f"<results>/percs/loads.{{shard}}.{table}.parquet"
            for table in PERCS_LOADS
        },
    log:
        "<logs>/evaluate_percs_loads.{shard}.log",
    conda:
        "../../envs/environment.yaml"
    threads: 2
    params:
        percs=settings.percs.model_dump(
            include={"workloads", "seeds", "sensitivity", "shards"}
        ),
        seed=settings.seed,
        code=code("percs.percs_tables", "tables"),
    script:
        "../scripts/evaluate_percs_loads.py"


rule simulate_percs_packets:
    """Packet-level times of every case of a shard; a shard that is done is not run again."""
    output:
        reference="<results>/percs/shards/{shard}.reference.parquet",
    log:
        "<logs>/simulate_percs_packets.{shard}.log",
    conda:
        "../../envs/environment.yaml"
    threads: 2
    params:
        percs=settings.percs.model_dump(
            include={"simulated", "simulated_seeds", "packet_kib", "window", "shards"}
        ),
        seed=settings.seed,
        code=code("percs.percs_tables", "tables"),
    script:
        "../scripts/simulate_percs_packets.py"


rule compare_percs_packets:
    """The bound of the busiest link beside packet-level times, and what tells their ratio."""
    input:
        **percs_loads("network_case", "network_link_class"),
        reference=[
            f"<results>/percs/shards/{n}.reference.parquet" for n in PERCS_SHARDS
        ],
    output:
        **{table: f"<results>/percs/packets.{table}.parquet" for table in PERCS_PACKETS},
    log:
        "<logs>/compare_percs_packets.log",
    conda:
        "../../envs/environment.yaml"
    params:
        seed=settings.seed,
        code=code("percs.percs_tables", "tables"),
    script:
        "../scripts/compare_percs_packets.py"


rule search_percs_mappings:
    """Mappings for direct routing that relieve the busiest links, verified packet by packet."""
    output:
        network_search="<results>/percs/searched.network_search.parquet",
    log:
        "<logs>/search_percs_mappings.log",
    conda:
        "../../envs/environment.yaml"
    params:
        percs=settings.percs.model_dump(include={"searched", "proposals", "packet_kib"}),
        seed=settings.seed,
        code=code("percs.percs_tables", "tables"),
    script:
        "../scripts/search_percs_mappings.py"
