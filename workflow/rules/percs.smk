"""The study of two-level direct networks: hot-spots, mappings, routings.

REQUIRED INPUTS: `percs` of the configuration.
OUTPUTS: <results>/percs/<part>.<table>.parquet, declared by `parts` of each rule.
STEPS: count_percs_links, evaluate_percs_loads, simulate_percs_packets (simulated reference), compare_percs_packets,
search_percs_mappings.
"""


rule count_percs_links:
    """Directed links by class for all machine sizes, and the talk's example on two supernodes."""
    output:
        **outputs("count_percs_links"),
    log:
        "<logs>/count_percs_links.log",
    benchmark:
        "<logs>/benchmarks/count_percs_links.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        code=code("percs"),
    script:
        "../scripts/percs/count_percs_links.py"


rule evaluate_percs_loads:
    """Link loads of a shard of all workloads, mappings, routings, gateway rules and placements."""
    output:
        **outputs("evaluate_percs_loads"),
    log:
        "<logs>/evaluate_percs_loads.{shard}.log",
    benchmark:
        "<logs>/benchmarks/evaluate_percs_loads.{shard}.tsv"
    # Figures depend on this rule.
    priority: 1
    conda:
        "../../envs/environment.yaml"
    threads: HALF_OF_THE_CORES
    params:
        percs=settings.percs.model_dump(
            include={"workloads", "seeds", "sensitivity", "shards"}
        ),
        seed=settings.seed,
        code=code("percs"),
    script:
        "../scripts/percs/evaluate_percs_loads.py"


rule simulate_percs_packets:
    """Packet-level times of the cases of a shard; finished shards are not repeated."""
    output:
        reference="<results>/percs/shards/{shard}.reference.parquet",
    log:
        "<logs>/simulate_percs_packets.{shard}.log",
    benchmark:
        "<logs>/benchmarks/simulate_percs_packets.{shard}.tsv"
    # Figures depend on this rule.
    priority: 1
    conda:
        "../../envs/environment.yaml"
    threads: HALF_OF_THE_CORES
    params:
        percs=settings.percs.model_dump(
            include={"simulated", "simulated_seeds", "packet_kib", "window", "shards"}
        ),
        seed=settings.seed,
        code=code("percs"),
    script:
        "../scripts/percs/simulate_percs_packets.py"


rule compare_percs_packets:
    """Bound of the busiest link and packet-level times, and features that explain their ratio."""
    input:
        network_case=table_files("network_case", "percs"),
        network_link_class=table_files("network_link_class", "percs"),
        reference=[
            f"<results>/percs/shards/{n}.reference.parquet"
            for n in range(settings.percs.shards)
        ],
    output:
        **outputs("compare_percs_packets"),
    log:
        "<logs>/compare_percs_packets.log",
    benchmark:
        "<logs>/benchmarks/compare_percs_packets.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        seed=settings.seed,
        code=code("percs"),
    script:
        "../scripts/percs/compare_percs_packets.py"


rule search_percs_mappings:
    """Mappings that reduce the load of the busiest links, verified at packet level."""
    output:
        **outputs("search_percs_mappings"),
    log:
        "<logs>/search_percs_mappings.log",
    benchmark:
        "<logs>/benchmarks/search_percs_mappings.tsv"
    # The longest job of the full study has one thread, so that other jobs run concurrently.
    priority: LONGEST_CHAIN
    conda:
        "../../envs/environment.yaml"
    params:
        percs=settings.percs.model_dump(include={"searched", "proposals", "packet_kib"}),
        seed=settings.seed,
        code=code("percs"),
    script:
        "../scripts/percs/search_percs_mappings.py"
