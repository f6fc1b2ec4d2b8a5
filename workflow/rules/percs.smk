"""The study of two-level direct networks: hot-spots, mappings, routings.

REQUIRED INPUTS: `percs` of the configuration.
OUTPUTS: <results>/percs/<part>.<table>.parquet, declared by `add_parts` below.
STEPS: evaluate_percs_loads, simulate_percs_packets (simulated reference), compare_percs_packets, search_percs_mappings.
"""

PERCS_LOADS = (
    "network_count",
    "network_case",
    "network_link_class",
    "network_link_histogram",
)
PERCS_PACKETS = ("prediction", "reference", "error_feature")
add_parts("percs", **{table: ["loads"] for table in PERCS_LOADS})
add_parts("percs", **{table: ["packets"] for table in PERCS_PACKETS})
add_parts("percs", network_search=["searched"])


rule evaluate_percs_loads:
    """Loads of all links for every workload, mapping, routing, rule of gateways and placement."""
    output:
        **{table: f"<results>/percs/loads.{table}.parquet" for table in PERCS_LOADS},
    log:
        "<logs>/evaluate_percs_loads.log",
    threads: 2
    params:
        percs=settings.percs.model_dump(include={"workloads", "seeds", "sensitivity"}),
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
        **{
            table: f"<results>/percs/loads.{table}.parquet"
            for table in ("network_case", "network_link_class")
        },
        shards=[
            f"<results>/percs/shards/{n}.reference.parquet"
            for n in range(settings.percs.shards)
        ],
    output:
        **{table: f"<results>/percs/packets.{table}.parquet" for table in PERCS_PACKETS},
    log:
        "<logs>/compare_percs_packets.log",
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
    params:
        percs=settings.percs.model_dump(include={"searched", "proposals", "packet_kib"}),
        seed=settings.seed,
        code=code("percs.percs_tables", "tables"),
    script:
        "../scripts/search_percs_mappings.py"
