"""Input files of all commands, with valid samples for the fuzz tests."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.unit.collectives.test_interfaces import TABLE
from tests.unit.gpucentric.test_bandwidth_matrices import PEER
from tests.unit.maxrate.test_measurements import BENCHPRESS, IMB, NETGAUGE
from tests.unit.maxrate.test_transport_output import IB_BANDWIDTH, IB_LATENCY, UCX_BANDWIDTH, UCX_LATENCY
from tests.unit.pcie.measurements.test_logs import P2PMARK_WRITES
from tests.unit.pcie.measurements.test_rocm_output import (
    ALL_TO_ALL,
    OLD_PEER_COPIES,
    OLD_PEER_LIST,
    ROCM_BANDWIDTH_TEST,
)
from tests.unit.pcie.topology.test_gpu_reports import FULL, query, table
from tests.unit.pcie.topology.test_listings import ROCM as ROCM_TOPOLOGY
from tests.unit.pcie.topology.test_listings import TREE as LSPCI_TREE
from tests.unit.pcie.topology.test_listings import lspci
from tests.unit.percs.test_launcher_files import MONITORED

COLLECTIVES = Path(__file__).parents[1] / "data" / "collectives"
NCCL_LOG = (COLLECTIVES / "nccl_debug_info.log").read_text()
FOUR_GPUS = """name: four
link_bytes_per_s: 31.508e+9
vertices:
  - {name: RC, kind: root_complex}
  - {name: "0", kind: endpoint, parent: RC}
  - {name: "1", kind: endpoint, parent: RC}
  - {name: "2", kind: endpoint, parent: RC}
  - {name: "3", kind: endpoint, parent: RC}
"""
PAIR_TABLE = """source,target,kind,value,unit
0,1,one_way,50,GB/s
1,0,one_way,51,GB/s
0,1,both_ways,97,GB/s
0,1,latency,1.4,us
H,0,host_to_device,52,GB/s
"""

GRAPHS = "graph,source,target,size_bytes,start_s\nhalo,0,1,1048576,0\nhalo,1,4,2097152,0.001\nring,3,2,4096,0\n"
TREE = """name: mine
source: typed
tag: measured
link_bytes_per_s: 15.75e+9
bandwidth_bytes_per_s: 12.0e+9
peer_links:
  - {kind: NVLink, endpoints: ["4", "5"]}
vertices:
  - {name: RC, kind: root_complex}
  - {name: S0, kind: switch, parent: RC, capacity: 1.0}
  - {name: S1, kind: switch, parent: RC}
  - {name: "0", kind: endpoint, parent: S0, label: "0000:01"}
  - {name: "1", kind: endpoint, parent: S0}
  - {name: "2", kind: endpoint, parent: S0}
  - {name: "3", kind: endpoint, parent: S1, capacity: 0.5}
  - {name: "4", kind: endpoint, parent: S1}
  - {name: "5", kind: endpoint, parent: S1}
"""
NCCL = """<system version="1">
  <cpu numaid="0" arch="x86_64" host_hash="0x1">
    <pci busid="0000:18:00.0" class="0x060400" link_speed="8 GT/s" link_width="16">
      <pci busid="0000:1d:00.0" class="0x038000" link_speed="8 GT/s" link_width="16"><gpu dev="1" rank="1">
        <xgmi target="0000:20:00.0" count="1" tclass="0x038000"/></gpu></pci>
      <pci busid="0000:20:00.0" class="0x038000" link_speed="8.0 GT/s PCIe" link_width="8"><gpu dev="0"/></pci>
      <pci busid="0000:21:00.0" class="0x020700" link_speed="8 GT/s" link_width="16"/>
    </pci>
  </cpu>
  <cpu numaid="1" host_hash="0x1">
    <pci busid="0000:28:00.0" class="0x030200" link_speed="16 GT/s" link_width="16"/>
  </cpu>
</system>
"""
CLASSES = """        GPU0    GPU1    NIC0    CPU Affinity    NUMA Affinity
GPU0     X      PHB     PIX     0-15    0
GPU1    PHB      X      PHB     0-15    0
NIC0    PIX     PHB      X
"""
ACCESS = """        GPU0    GPU1
 GPU0   X       CNS
 GPU1   CNS     X
"""
HWLOC = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
<object type="Machine"><object type="Package">
<object type="Bridge" bridge_type="0-1" depth="0">
<object type="Bridge" bridge_type="1-1" pci_busid="0000:01:00.0" pci_type="0604 [8086:2030]" pci_link_speed="15.753846">
<object type="PCIDev" gp_index="7" pci_busid="0000:02:00.0" pci_type="0302 [10de:1db8]" pci_link_speed="15.753846"/>
<object type="PCIDev" gp_index="8" pci_busid="0000:03:00.0" pci_type="0302 [10de:1db8]" pci_link_speed="7.876923"/>
<object type="PCIDev" gp_index="9" pci_busid="0000:04:00.0" pci_type="0200 [15b3:1013]" pci_link_speed="7.876923"/>
</object></object></object></object>
<distances2hetero nbobjs="2" kind="25" name="NVLinkBandwidth">
<indexes length="20">PCIDev:7 PCIDev:8 </indexes><u64values length="20">0 25000 25000 0 </u64values>
</distances2hetero>
</topology>
"""
PROBES = """graph,repetition,source,target,size_bytes,elapsed_s
alone,0,0,1,314572800,0.0253
alone,1,0,1,314572800,0.0254
across,0,0,4,314572800,0.0256
conflict,0,1,0,314572800,0.0375
conflict,0,4,0,314572800,0.0505
"""
PARAMETERS = """study,system,name,value,unit,tag,source,ci_low,ci_high
pcie,storm8,bandwidth,12.0e9,bytes/s,measured,probes.csv,11.9e9,12.1e9
pcie,storm8,tau,0.12,1,measured,probes.csv,0.1,0.13
"""
NVBANDWIDTH = json.dumps(
    {
        "nvbandwidth": {
            "testcases": [
                {
                    "name": "device_to_device_memcpy_write_ce",
                    "status": "Passed",
                    "bandwidth_description": "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)",
                    "bandwidth_matrix": [["N/A", "20.5", "20.4"], ["20.5", "N/A", "20.1"], ["20.3", "20.5", "N/A"]],
                },
                {
                    "name": "device_to_device_latency_sm",
                    "bandwidth_description": "latency (ns)",
                    "bandwidth_matrix": [["N/A", "800"], ["820", "N/A"]],
                },
            ]
        }
    },
    indent=1,
)
NVBANDWIDTH_TEXT = """nvbandwidth Version: v0.8
Running device_to_device_memcpy_read_ce.
memcpy CE GPU(row) <- GPU(column) bandwidth (GB/s)
           0         1
 0       N/A     20.00
 1     22.00       N/A

SUM device_to_device_memcpy_read_ce 42.00
"""
OSU = (
    "# OSU MPI Multiple Bandwidth / Message Rate Test v7\n# [ pairs: 4 ] [ window size: 64 ]\n# Size MB/s Messages/s\n"
    + "".join(f"{2**i} {4 * 2**i / (1 + 2**i / 2500):.2f} 1000.0\n" for i in range(12))
)
NODECOMM = "Job Id:\t\t\t77.bw\nPingpong for\nmaster:  0, 1\npartner: 32, 33\n" + "".join(
    f"{4**i}\t{3e-6 + 4**i * 1e-9:.3e}\t{3.1e-6 + 4**i * 2e-9:.3e}\n" for i in range(8)
)
MEASUREMENTS = "processes,size_bytes,time_s,dataset,convention,repetitions,spread\n" + "".join(
    f"{k},{8**i},{3e-6 + k * 8**i / 3e9:.4e},mine,one_way,5,0.01\n" for k in (1, 2, 4) for i in range(5)
)
TIMERS = "run_id,region,iter,raw_ns,overhead_ns\n" + "".join(
    f"r,{region},{i},{time + i % 3},30\n"
    for region, time in {
        "mpi_isend": 330,
        "uct_post": 220,
        "md_setup": 60,
        "md_barrier": 50,
        "dbc_barrier": 55,
        "pio_copy": 70,
        "uct_progress": 90,
        "send_progress": 95,
        "receive_progress": 160,
    }.items()
    for i in range(4)
)
TRACE = "run_id,seq,t_ns,direction,tlp_type,payload_b,seq_num,acked_seq,role\n" + "".join(
    f"injection,{4 * i},{300 * i},down,MWr,64,{i},,post\ninjection,{4 * i + 1},{300 * i + 120},up,MWr,64,{i},,completion\n"
    f"injection,{4 * i + 2},{300 * i + 260},down,ACK,,,{i},other\n"
    for i in range(12)
)
MATRIX = "0,5,0,3\n5,0,2,0\n0,2,0,1\n3,0,1,0\n"
PAIRS = "source,target,size_bytes\n0,1,5000\n1,2,200\n2,3,70000\n"
MARKET = "%%MatrixMarket matrix coordinate real general\n4 4 3\n1 2 5000\n2 3 70\n4 1 6\n"
HOSTS = "".join(f"node{i:03d}\n" for i in range(16))
HOST_FORMS = (
    "".join(f"node{i:03d} slots=4\n" for i in range(16)),
    "node[000-015]\n",
    "".join(f"SwitchName=s{i} Nodes=node[{4 * i:03d}-{4 * i + 3:03d}]\n" for i in range(4))
    + "SwitchName=t Switches=s[0-3]\n",
)
SYSTEM = """system: mine
posts_per_completion: 64
components:
""" + "".join(
    f"  {name}: {{time_ns: {20 + i}.5, spread_ns: 1.0, tag: measured, source: timers}}\n"
    for i, name in enumerate(
        (
            "md_setup",
            "md_barrier",
            "dbc_barrier",
            "pio_copy",
            "llp_post_other",
            "llp_prog",
            "hlp_post",
            "hlp_tx_prog",
            "hlp_rx_prog",
            "injection_misc",
            "pcie",
            "wire",
            "switch",
            "rc_to_mem",
        )
    )
)
NETWORK = """groups: 4
drawers_per_group: 1
routers_per_drawer: 4
cores_per_router: 1
multiplicity: 1
ll_bytes_per_s: 24.0e+9
d_bytes_per_s: 10.0e+9
injection_bytes_per_s: 50.0e+9
"""
GPU = """study,system,name,value,unit,tag,source
gpucentric,this_gpu,network_efficiency,0.9,1,measured,run
"""
CONFIG = """seed: 7
pcie:
  graph_sets:
    mine: {topology: storm8, validation_graphs: 10, bandwidth_gib_per_s: 10.5, tau: 0.1}
  models: [congestion_factor, max_min]
  hardware: []
  schedules: {topologies: [storm8], grids: [[4, 2]], models: [congestion_factor]}
breakdown: {samples: 2000}
maxrate: {starts: 4, draws: 30}
percs: {proposals: 50000, workloads: [4D-64, 2D-64], simulated: [2D-64], searched: [2D-64], packet_kib: 512.0}
"""


COPIES = """graph,communications,program,total_gb_per_s
alone,0>1,torch,50
both ways,0>1 1>0,torch,96
four,0>4 1>5 2>6 3>7,unordered_writes,180
memory,H>0 H>1,independent,90
"""
COPIES_ONE_BY_ONE = """graph,source,target,size_bytes,elapsed_s,repetition
a,0,1,1000000,0.00002,1
a,0,1,1000000,0.000021,2
b,0,1,1000000,0.00003,1
b,2,1,1000000,0.00004,1
"""
P2PMARK = """Found 2 GPUs

=== Sequential P2P bandwidth (GB/s) ===
Each transfer: 64 MB, 20 iterations

Dst->  GPU0     GPU1
GPU 0:     -      56.10
GPU 1:   56.12       -

=== Topology probe: staggered reads by peer distance (GB/s) ===
+1  0<-1 1<-0   52.00 avg   104.00 total

=== Single reader, all 1 peers concurrent (GB/s) ===

GPU 0 reads from all peers: 56.00 GB/s
GPU 1 reads from all peers: 56.00 GB/s

=== All GPUs read all peers simultaneously (GB/s) ===

GPU 0: 52.00 GB/s
GPU 1: 52.00 GB/s

Total system bandwidth: 104.00 GB/s
"""
TRANSFER_BENCH = """TransferBench v1.62.00
Test 1:
 Executor: DMA 00 |   59.334 GB/s |    4.524 ms |    268435456 bytes | 60.973  GB/s (sum)
     Transfer 00  |   60.973 GB/s |    4.403 ms |    268435456 bytes | G0 -> D000:001 -> G1
"""


@dataclass(frozen=True)
class Door:
    """A command with an input file to damage.

    Parameters
    ----------
    name : str
        Name of the input, for messages.
    file : str
        Name of the damaged file.
    samples : sequence of str
        Valid contents of the file.
    arguments : callable
        Function of the paths of the damaged file and of the output that returns the command line.
    beside : dict
        Content of further input files, which are not damaged, by name.
    output : str or None
        Name of the output file of the command.
    """

    name: str
    file: str
    samples: Sequence[str]
    arguments: Callable[[str, str], list[str]]
    beside: dict[str, str]
    output: str | None = None


def _door(name, file, samples, arguments, beside=None, output=None):
    return Door(name, file, samples, arguments, beside or {}, output)


NET = {"network.yaml": NETWORK}
DOORS = (
    _door(
        "topology YAML",
        "mine.yaml",
        [TREE],
        lambda f, o: ["predict", f, "graphs.csv", "-o", o],
        {"graphs.csv": GRAPHS.replace("1,4", "1,3")},
        "out.csv",
    ),
    _door(
        "topology YAML, simulated",
        "mine.yaml",
        [TREE],
        lambda f, o: ["simulate", f, "graphs.csv", "-o", o],
        {"graphs.csv": GRAPHS.replace("1,4", "1,3")},
        "out.csv",
    ),
    _door(
        "topology XML", "machine.xml", [NCCL, HWLOC], lambda f, o: ["topology", "import", f, "-o", o], {}, "out.yaml"
    ),
    _door(
        "peer access",
        "topo.txt",
        [CLASSES + ACCESS],
        lambda f, o: ["topology", "import", f, "--link", "gen4x16", "-o", o],
        {},
        "out.yaml",
    ),
    _door(
        "listings",
        "machine.txt",
        [
            CLASSES,
            ROCM_TOPOLOGY,
            LSPCI_TREE,
            lspci(),
            NCCL_LOG,
            CLASSES + query(FULL, FULL),
            CLASSES + table("L4", "L4"),
        ],
        lambda f, o: ["topology", "import", f, "--link", "gen4x16", "-o", o],
        {},
        "out.yaml",
    ),
    _door(
        "NCCL log",
        "run.log",
        [NCCL_LOG, TABLE, NCCL_LOG + TABLE],
        lambda f, o: ["collective", "machine.yaml", "--log", f, "--gpu", "L40S", "--cpu", "amd", "-o", o],
        {"machine.yaml": FOUR_GPUS},
        "out.csv",
    ),
    _door(
        "NCCL graph",
        "graph.xml",
        [(COLLECTIVES / "graph.xml").read_text()],
        lambda f, o: ["collective", "machine.yaml", "--nccl-graph", f, "--gpu", "L40S", "--cpu", "amd", "-o", o],
        {"machine.yaml": FOUR_GPUS},
        "out.csv",
    ),
    _door("bug report", "report.txt", [CLASSES + ACCESS], lambda f, o: ["diagnose", f]),
    _door(
        "bug report with a log",
        "report.txt",
        [NCCL_LOG + TABLE],
        lambda f, o: ["diagnose", "machine.yaml", f],
        {"machine.yaml": FOUR_GPUS},
    ),
    _door("graphs CSV", "graphs.csv", [GRAPHS], lambda f, o: ["predict", "storm8", f, "-o", o], {}, "out.parquet"),
    _door(
        "pattern CSV",
        "pattern.csv",
        ["source,target,size_bytes\n0,1,5\n1,4,6\n4,0,7\n"],
        lambda f, o: ["schedule", "storm8", "--communications", f, "-o", o],
        {},
        "out.json",
    ),
    _door("probes", "probes.csv", [PROBES], lambda f, o: ["calibrate", "storm8", f, "-o", o], {}, "out.csv"),
    _door(
        "machine parameters",
        "p.csv",
        [PARAMETERS],
        lambda f, o: ["predict", "storm8", "graphs.csv", "--parameters", f, "-o", o],
        {"graphs.csv": GRAPHS},
        "out.csv",
    ),
    _door(
        "nvbandwidth", "nv.json", [NVBANDWIDTH, NVBANDWIDTH_TEXT], lambda f, o: ["bandwidth", f, "-o", o], {}, "out.csv"
    ),
    _door(
        "benchmark output",
        "osu.out",
        [OSU, NODECOMM, IB_LATENCY, IB_BANDWIDTH, UCX_LATENCY, UCX_BANDWIDTH, BENCHPRESS, IMB, NETGAUGE],
        lambda f, o: ["collect", f, "-o", o],
        {},
        "out.csv",
    ),
    _door(
        "breakdown benchmarks",
        "ib.out",
        [IB_LATENCY, UCX_LATENCY],
        lambda f, o: ["breakdown", "compare", "thunderx2", f],
    ),
    _door("measurements", "m.csv", [MEASUREMENTS], lambda f, o: ["collect", f, "-o", o], {}, "out.csv"),
    _door(
        "measured copies",
        "copies.csv",
        [COPIES, COPIES_ONE_BY_ONE],
        lambda f, o: ["validate", "direct8", f, "-o", o],
        {},
        "out.csv",
    ),
    _door(
        "printed copies",
        "printed.txt",
        [
            P2PMARK,
            P2PMARK_WRITES,
            ROCM_BANDWIDTH_TEST,
            PEER,
            TRANSFER_BENCH,
            NVBANDWIDTH_TEXT,
            OLD_PEER_COPIES,
            OLD_PEER_LIST,
        ],
        lambda f, o: ["validate", "direct8", f, "-o", o],
        {},
        "out.csv",
    ),
    _door("pairs", "pairs.csv", [PAIR_TABLE], lambda f, o: ["validate", "direct8", f, "-o", o], {}, "out.csv"),
    _door(
        "printed concurrent copies",
        "printed.txt",
        [ALL_TO_ALL],
        lambda f, o: ["validate", "pcie5_four_switches", f, "-o", o],
        {},
        "out.csv",
    ),
    _door("timers", "timers.csv", [TIMERS], lambda f, o: ["breakdown", "derive", "--timers", f, "--name", "mine"]),
    _door(
        "PCIe trace",
        "trace.csv",
        [TRACE],
        lambda f, o: [
            "breakdown",
            "derive",
            "--timers",
            "timers.csv",
            "--trace",
            f,
            "--name",
            "mine",
            "--posts-per-completion",
            "1",
        ],
        {"timers.csv": TIMERS},
    ),
    _door(
        "matrix CSV",
        "matrix.csv",
        [MATRIX, PAIRS],
        lambda f, o: ["network", "loads", f, "--network", "network.yaml"],
        NET,
    ),
    _door(
        "monitored messages",
        "all.prof",
        [MONITORED],
        lambda f, o: ["network", "loads", f, "--network", "network.yaml"],
        NET,
    ),
    _door(
        "MatrixMarket", "matrix.mtx", [MARKET], lambda f, o: ["network", "loads", f, "--network", "network.yaml"], NET
    ),
    _door(
        "hosts",
        "hosts.txt",
        [HOSTS, *HOST_FORMS],
        lambda f, o: ["map", "matrix.csv", "--network", "network.yaml", "--hosts", f, "--proposals", "1000", "-o", o],
        NET | {"matrix.csv": MATRIX},
        "best.hosts",
    ),
    _door("system YAML", "system.yaml", [SYSTEM], lambda f, o: ["whatif", f, "--reduce", "pio_copy=50%"]),
    _door(
        "network YAML",
        "network.yaml",
        [NETWORK],
        lambda f, o: ["network", "loads", "matrix.csv", "--network", f],
        {"matrix.csv": MATRIX},
    ),
    _door(
        "GPU parameters",
        "gpu.csv",
        [GPU],
        lambda f, o: ["select", "--system", "k20_extoll", "--size", "4KiB", "--measured", f],
    ),
)
