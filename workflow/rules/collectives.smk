"""The study of collective operations: forecasts and measured times of all_reduce and others.

REQUIRED INPUTS: `collectives` of the configuration, config/published/collectives.
OUTPUTS: <results>/collectives/machines.<table>.parquet; this_machine.log and this_machine.xml.
STEPS: evaluate_collectives; measure_collectives by the target `measured`.
"""

# Files of the user.
USER_COLLECTIVES = [
    path
    for machine in settings.collectives.machines.values()
    for path in [machine.topology, machine.pairs, *machine.logs]
    if path and is_file(path)
]


rule measure_collectives:
    """all_reduce of nccl-tests on this machine, or the reason why it was not measured."""
    output:
        measured="<results>/collectives/this_machine.log",
        topology="<results>/collectives/this_machine.xml",
    log:
        "<logs>/measure_collectives.log",
    benchmark:
        "<logs>/benchmarks/measure_collectives.tsv"
    conda:
        "../../envs/measure.yaml"
    # Runs on the host, because the image has neither NCCL nor nccl-tests.
    container:
        None
    threads: workflow.cores
    params:
        # The measurement is repeated once a missing requirement becomes available.
        missing=lambda wildcards: nccl_tests_missing(),
        code=code("collectives"),
    script:
        "../scripts/collectives/measure_collectives.py"


rule evaluate_collectives:
    """Forecasts of collective operations on measured machines and on those of the user."""
    input:
        constants=PUBLISHED / "collectives" / "constants.csv",
        machines=PUBLISHED / "collectives" / "machines.csv",
        measurements=PUBLISHED / "collectives" / "measurements.csv",
        pairs=PUBLISHED / "collectives" / "pairs.csv",
        user_supplied=USER_COLLECTIVES,
        measured=(
            [
                "<results>/collectives/this_machine.log",
                "<results>/collectives/this_machine.xml",
            ]
            if settings.collectives.measured
            else []
        ),
    output:
        **outputs("evaluate_collectives"),
    log:
        "<logs>/evaluate_collectives.log",
    benchmark:
        "<logs>/benchmarks/evaluate_collectives.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        contents=files_digest(USER_COLLECTIVES),
        machines={
            name: machine.model_dump()
            for name, machine in settings.collectives.machines.items()
        },
        code=code("collectives", "nccl", "pcie"),
    script:
        "../scripts/collectives/evaluate_collectives.py"
