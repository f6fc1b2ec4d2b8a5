"""The study of two-level direct networks: hot-spots, mappings, routings.

REQUIRED INPUTS: `percs` of the configuration.
OUTPUTS: <results>/percs/<part>.<table>.parquet, declared by `parts` of each rule.
STEPS: count_percs_links, evaluate_percs_loads, simulate_percs_packets (simulated reference), compare_percs_packets,
search_percs_mappings.
"""

PERCS_SHARDS = range(settings.percs.shards)


rule count_percs_links:
    """Directed links by class, for machines of every size, and the talk's example on two supernodes."""
    output:
        **parts("percs", "links", ["network_count", "network_example"]),
    log:
        "<logs>/count_percs_links.log",
    benchmark:
        "<logs>/benchmarks/count_percs_links.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        code=code("count_percs_links"),
    script:
        "../scripts/count_percs_links.py"


rule evaluate_percs_loads:
    """Link loads of a shard of all workloads, mappings, routings, rules of gateways and placements."""
    output:
        **parts(
            "percs",
            "loads.{shard}",
            ["network_case", "network_link_class", "network_link_histogram"],
            shard=PERCS_SHARDS,
        ),
    log:
        "<logs>/evaluate_percs_loads.{shard}.log",
    benchmark:
        "<logs>/benchmarks/evaluate_percs_loads.{shard}.tsv"
    # Pictures wait for it.
    priority: 1
    conda:
        "../../envs/environment.yaml"
    threads: HALF_OF_THE_CORES
    params:
        percs=settings.percs.model_dump(
            include={"workloads", "seeds", "sensitivity", "shards"}
        ),
        seed=settings.seed,
        code=code("evaluate_percs_loads"),
    script:
        "../scripts/evaluate_percs_loads.py"


rule simulate_percs_packets:
    """Packet-level times of every case of a shard; a shard that is done is not run again."""
    output:
        reference="<results>/percs/shards/{shard}.reference.parquet",
    log:
        "<logs>/simulate_percs_packets.{shard}.log",
    benchmark:
        "<logs>/benchmarks/simulate_percs_packets.{shard}.tsv"
    # Pictures wait for it.
    priority: 1
    conda:
        "../../envs/environment.yaml"
    threads: HALF_OF_THE_CORES
    params:
        percs=settings.percs.model_dump(
            include={"simulated", "simulated_seeds", "packet_kib", "window", "shards"}
        ),
        seed=settings.seed,
        code=code("simulate_percs_packets"),
    script:
        "../scripts/simulate_percs_packets.py"


rule compare_percs_packets:
    """The bound of the busiest link beside packet-level times, and what tells their ratio."""
    input:
        network_case=table_parts("network_case", "percs"),
        network_link_class=table_parts("network_link_class", "percs"),
        reference=[
            f"<results>/percs/shards/{n}.reference.parquet" for n in PERCS_SHARDS
        ],
    output:
        **parts("percs", "packets", ["prediction", "reference", "error_feature"]),
    log:
        "<logs>/compare_percs_packets.log",
    benchmark:
        "<logs>/benchmarks/compare_percs_packets.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        seed=settings.seed,
        code=code("compare_percs_packets"),
    script:
        "../scripts/compare_percs_packets.py"


rule search_percs_mappings:
    """Mappings for direct routing that relieve the busiest links, verified packet by packet."""
    output:
        **parts("percs", "searched", ["network_search"]),
    log:
        "<logs>/search_percs_mappings.log",
    benchmark:
        "<logs>/benchmarks/search_percs_mappings.tsv"
    # One thread, and the longest job of the full study: others run beside it.
    priority: LONGEST_CHAIN
    conda:
        "../../envs/environment.yaml"
    params:
        percs=settings.percs.model_dump(include={"searched", "proposals", "packet_kib"}),
        seed=settings.seed,
        code=code("search_percs_mappings"),
    script:
        "../scripts/search_percs_mappings.py"
