"""Figures, drawn from tables only.

REQUIRED INPUTS: <results>/pcie/*.parquet.
OUTPUTS: <reports>/figures/<study>.<figure>.{svg,pdf,png}.
STEPS: one rule a figure, named plot_<study>_<figure>.
"""

# The graph set whose slowdowns are drawn: the paper's topology if it is configured.
SHOWN_SET = "storm8" if "storm8" in GRAPH_SETS else sorted(GRAPH_SETS)[0]


rule plot_pcie_topology_loads:
    input:
        communication="<results>/pcie/example.communication.parquet",
        phase="<results>/pcie/example.phase.parquet",
    output:
        drawn("pcie", "topology_loads"),
    log:
        "<logs>/plot_pcie_topology_loads.log",
    params:
        code=code("figures.pcie", "figures.style", "pcie.topology_files"),
    script:
        "../scripts/plot_pcie_topology_loads.py"


rule plot_pcie_worked_example:
    input:
        communication="<results>/pcie/example.communication.parquet",
        phase="<results>/pcie/example.phase.parquet",
    output:
        drawn("pcie", "worked_example"),
    log:
        "<logs>/plot_pcie_worked_example.log",
    params:
        code=code("figures.pcie", "figures.style"),
    script:
        "../scripts/plot_pcie_worked_example.py"


rule plot_pcie_slowdown:
    input:
        prediction=f"<results>/pcie/{SHOWN_SET}.prediction.parquet",
        graph=f"<results>/pcie/{SHOWN_SET}.graph.parquet",
        communication=f"<results>/pcie/{SHOWN_SET}.communication.parquet",
    output:
        drawn("pcie", "slowdown"),
    log:
        "<logs>/plot_pcie_slowdown.log",
    params:
        bandwidth_gib_per_s=GRAPH_SETS[SHOWN_SET].bandwidth_gib_per_s
        or settings.pcie.bandwidth_gib_per_s,
        code=code("figures.pcie", "figures.style"),
    script:
        "../scripts/plot_pcie_slowdown.py"


rule plot_pcie_model_differences:
    input:
        prediction=f"<results>/pcie/{SHOWN_SET}.prediction.parquet",
    output:
        drawn("pcie", "model_differences"),
    log:
        "<logs>/plot_pcie_model_differences.log",
    params:
        code=code("figures.pcie", "figures.style"),
    script:
        "../scripts/plot_pcie_model_differences.py"


rule plot_pcie_measured_probes:
    input:
        comparison="<results>/pcie/all.comparison.parquet",
    output:
        drawn("pcie", "measured_probes"),
    log:
        "<logs>/plot_pcie_measured_probes.log",
    params:
        code=code("figures.pcie", "figures.style"),
    script:
        "../scripts/plot_pcie_measured_probes.py"
