"""Bring your own machine: a topology, a pattern, parameters from a few probes."""

# %% A topology: from `lstopo --whole-io machine.xml`, NCCL's XML, or a few lines of YAML.
import tempfile
from pathlib import Path

from fabricast.pcie.calibration import calibrate, read_probe_times
from fabricast.pcie.graph_files import read_graphs
from fabricast.pcie.models import evaluate, named_model
from fabricast.pcie.topology_files import load_tree

tree = load_tree("storm8")
print(tree.name, "has the endpoints", ", ".join(tree.endpoint_names))

# %% Probes: one copy alone, one across the root complex, one conflict. These times are made up; measure your own.
folder = Path(tempfile.mkdtemp())
probes = folder / "probes.csv"
probes.write_text(
    "probe,repeat,source,target,size_bytes,elapsed_s\n"
    "alone,0,0,1,314572800,0.02526\nalone,1,0,1,314572800,0.02531\n"
    "crossing,0,0,4,314572800,0.02530\n"
    "conflict,0,0,1,314572800,0.04330\nconflict,0,4,1,314572800,0.05052\n"
)
parameters = {entry.name: entry.value for entry in calibrate(tree, read_probe_times(probes), seed=1)}
print({name: f"{value:.5g}" for name, value in parameters.items()})

# %% A pattern, and when each copy ends.
pattern = folder / "graphs.csv"
pattern.write_text("graph,source,target\nhalo,0,1\nhalo,0,2\nhalo,4,1\nhalo,1,4\n")
graphs = read_graphs(pattern, tree, size_bytes=300 * 2**20)
end_s = evaluate(
    tree, graphs, named_model("congestion_factor"), bandwidth_bytes_per_s=parameters["bandwidth"],
    tau=parameters.get("tau", 0.0),
).end_s  # fmt: skip
for (source, target), end in zip(graphs.arcs(0), end_s, strict=True):
    print(f"{source} to {target}: {1e3 * end:.2f} ms")
