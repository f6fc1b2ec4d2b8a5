"""The study of collective operations: forecasts beside measured times of all_reduce and others.

REQUIRED INPUTS: `collectives` of the configuration, config/published/collectives.
OUTPUTS: <results>/collectives/machines.<table>.parquet.
STEPS: evaluate_collectives.
"""


rule evaluate_collectives:
    """Forecasts of collective operations on measured machines and on those of the user."""
    input:
        constants=PUBLISHED / "collectives" / "constants.csv",
        machines=PUBLISHED / "collectives" / "machines.csv",
        measurements=PUBLISHED / "collectives" / "measurements.csv",
        pairs=PUBLISHED / "collectives" / "pairs.csv",
        own=[
            path
            for machine in settings.collectives.machines.values()
            for path in [machine.topology, machine.pairs, *machine.logs]
            if path and is_file(path)
        ],
    output:
        **outputs("evaluate_collectives"),
    log:
        "<logs>/evaluate_collectives.log",
    benchmark:
        "<logs>/benchmarks/evaluate_collectives.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        machines={
            name: machine.model_dump()
            for name, machine in settings.collectives.machines.items()
        },
        code=code("collectives", "nccl", "pcie"),
    script:
        "../scripts/collectives/evaluate_collectives.py"
