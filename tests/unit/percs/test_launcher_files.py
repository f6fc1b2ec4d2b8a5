"""Host files, node lists and monitored messages of MPI launchers and schedulers."""

import random

import pytest
from typer.testing import CliRunner

from fabricast.cli.main import app
from fabricast.core.errors import InputError
from fabricast.inputs.host_names import node_names
from fabricast.networks.launcher_files import read_hosts
from fabricast.networks.matrices import read_matrix

NAMES = [f"node{number:02}" for number in range(1, 9)]
#: Forms of the hosts of one job with four slots each.
FORMS = {
    "one name per line": "".join(f"{name}\n" for name in NAMES),
    "Open MPI": "# hosts\n" + "".join(f"{name} slots=4 max_slots=8  # rack 1\n" for name in NAMES),
    "MPICH": "".join(f"{name}:4\n" for name in NAMES),
    "PBS": "".join(f"{name}\n" * 4 for name in NAMES),
    "Slurm, compressed": "node[01-08]\n",
    "Slurm, variable": "SLURM_JOB_NODELIST=node[01-08]\n",
    "with ranks": "".join(f"[1,{rank}]<stdout>:{name}\n" for rank, name in enumerate(NAMES)),
    "Slurm, in parts": "node[01-03,04]\n\nnode05,node[06-07],node08\n",
}
TOPOLOGY = """# topology of the cluster
SwitchName=leaf1 Nodes=node[01-02],node05 LinkSpeed=100
SwitchName=leaf2 Nodes=node[03-04]
SwitchName=leaf0 Nodes=node[06-08]
SwitchName=spine1 \\
    Switches=leaf[1-2]
SwitchName=core Switches=leaf0,spine1
"""
MONITORED = """# POINT TO POINT
E\t0\t1\t1012 bytes\t30 msgs sent\t0,0,0,26,0
I\t0\t1\t108 bytes\t27 msgs sent
E\t1\t0\t860 bytes\t24 msgs sent\t8,0,0
# OSC
S\t1\t2\t64 bytes\t1 msgs sent
R\t1\t3\t32 bytes\t1 msgs sent
# COLLECTIVES
D\tMPI_COMM_WORLD\tprocs: 0,1,2,3
O2A\t1\t0 bytes\t0 msgs sent
A2A\t1\t276 bytes\t15 msgs sent
"""


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_host_files_have_the_same_hosts(tmp_path, form):
    path = tmp_path / "hosts"
    path.write_text(FORMS[form])
    assert read_hosts(path) == NAMES
    path.write_bytes(FORMS[form].replace("\n", "\r\n").encode())
    assert read_hosts(path, ranks_per_node=4) == NAMES
    if form in ("Open MPI", "MPICH", "PBS"):
        with pytest.raises(
            InputError,
            match=r"hosts:\d: host 'node01' has 4 slots, expected at least 5: the ranks per node \(ranks-per-node\)",
        ):
            read_hosts(path, ranks_per_node=5)
    else:
        assert read_hosts(path, ranks_per_node=5) == NAMES


def test_node_lists_are_expanded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert read_hosts("node[01-03,04],node05,node[06-07],node08") == NAMES
    assert list(node_names("r[1-2]n[9-11],x-1.site")) == [
        "r1n9",
        "r1n10",
        "r1n11",
        "r2n9",
        "r2n10",
        "r2n11",
        "x-1.site",
    ]
    # Any split into ranges and parts is the same list.
    chance = random.Random(3)
    for _ in range(50):
        numbers = sorted(chance.sample(range(200), chance.randint(1, 30)))
        parts, begin = [], 0
        for place, number in enumerate(numbers):
            if place + 1 == len(numbers) or numbers[place + 1] != number + 1 or chance.random() < 0.2:
                parts.append(f"{numbers[begin]:03}-{number:03}" if begin < place else f"{number:03}")
                begin = place + 1
        assert list(node_names(f"n[{','.join(parts)}]")) == [f"n{number:03}" for number in numbers]


def test_nodes_of_a_switch_tree_follow_each_other(tmp_path):
    path = tmp_path / "topology.conf"
    path.write_text(TOPOLOGY)
    assert read_hosts(path) == ["node06", "node07", "node08", "node01", "node02", "node05", "node03", "node04"]
    result = CliRunner().invoke(app, ["topology", "import", str(path), "-o", str(tmp_path / "x.yaml")])
    assert "network between hosts: 'fabricast map --network' reads it" in str(result.exception)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "contains no host name"),
        ("node01\nnode02\nnode01\n", ":3: host 'node01' is a duplicate of line 1"),
        ("node01 cores=4\n", ":1: host is 'node01 cores=4', expected a name of letters"),
        ("node01 slots=two\n", ":1: host is 'node01 slots=two', expected"),
        ("node[1-\n", ":1: host is 'node[1-', expected a name"),
        ("node[3-1]\n", ":1: host is 'node[3-1]', expected ranges such as [01-08,12]"),
        ("node[1-9999999]\n", "'node[1-9999999]' has more than 1,000,000 hosts"),
        ("n[1-2000]m[1-2000]\n", "has more than 1,000,000 hosts"),
        ("-x\n", ":1: host is '-x', expected a name of letters"),
        ("node01:x\n", ":1: host is 'node01:x', expected a name of letters"),
        ("SwitchName=a Switches=b\n", "switch 'b' is unknown, expected a tree of switches"),
        ("SwitchName=a Switches=a\n", "has no nodes below a root switch"),
        ("SwitchName=a Nodes=n1\nSwitchName=b Nodes=n1\n", "host 'n1' is at 'a' and at 'b'"),
        ("SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2\n", ":2: switch 'a' is a duplicate"),
        (
            "SwitchName=c Nodes=n1\nSwitchName=a Switches=c\nSwitchName=b Switches=c\n",
            "switch 'c' is below two switches",
        ),
    ],
)
def test_invalid_hosts_are_one_line(tmp_path, text, message):
    path = tmp_path / "hosts"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_hosts(path)
    assert message in str(caught.value)


def test_hosts_with_too_few_slots_are_rejected_by_map(tmp_path):
    matrix, hosts = tmp_path / "ring.csv", tmp_path / "hosts"
    matrix.write_text("source,target,size_bytes\n" + "".join(f"{n},{(n + 4) % 16},1000000\n" for n in range(16)))
    machine = tmp_path / "machine.yaml"
    machine.write_text(
        "groups: 4\nrouters_per_drawer: 2\ncores_per_router: 2\nll_bytes_per_s: 1.0e+10\nd_bytes_per_s: 5.0e+9\n"
        "injection_bytes_per_s: 1.0e+11\n"
    )
    call = ["map", str(matrix), "--network", str(machine), "--proposals", "1000", "-o", str(tmp_path / "best")]
    hosts.write_text("".join(f"node{n}:1\n" for n in range(8)))
    error = CliRunner().invoke(app, [*call, "--hosts", str(hosts)]).exception
    assert "host 'node0' has 1 slots, expected at least 2: the ranks per node (ranks-per-node)" in str(error)
    assert not list(tmp_path.glob("best*"))
    result = CliRunner().invoke(app, [*call, "--hosts", "node[0-7]"])
    assert result.exit_code == 0, result.output
    assert set((tmp_path / "best.hosts").read_text().split()) == {f"node{n}" for n in range(8)}


def test_monitored_messages_are_a_matrix(tmp_path):
    path = tmp_path / "all.prof"
    path.write_text(MONITORED)
    expected = {(0, 1): 1120, (1, 0): 860, (1, 2): 64, (3, 1): 32}
    source, target, size, ranks = read_matrix(path)
    assert dict(zip(zip(source.tolist(), target.tolist(), strict=True), size.tolist(), strict=True)) == expected
    assert ranks == 4
    folder = tmp_path / "prof"
    folder.mkdir()
    for rank in range(5):
        rows = [line for line in MONITORED.splitlines() if line.split()[1:2] == [str(rank)]]
        (folder / f"output.{rank}.prof").write_text("# POINT TO POINT\n" + "\n".join(rows) + "\n")
    source, target, size, ranks = read_matrix(folder)
    assert dict(zip(zip(source.tolist(), target.tolist(), strict=True), size.tolist(), strict=True)) == expected
    # A rank without messages has a file too.
    assert ranks == 5
    network = tmp_path / "machine.yaml"
    network.write_text(
        "groups: 2\nrouters_per_drawer: 2\ncores_per_router: 2\nll_bytes_per_s: 1.0e+10\nd_bytes_per_s: 5.0e+9\ninjection_bytes_per_s: 1.0e+11\n"
    )
    result = CliRunner().invoke(app, ["network", "loads", str(folder), "--network", str(network)])
    assert result.exit_code == 0, result.output
    (folder / "output.1.prof").unlink()
    with pytest.raises(InputError, match=r"has 4 .prof files, but none of rank 1 \(name.1.prof\)"):
        read_matrix(folder)
    path.write_text("nothing\n")
    with pytest.raises(InputError, match="has no row such as 'E 0 1 1012 bytes 30 msgs sent'"):
        read_matrix(path)
    for name in folder.iterdir():
        name.unlink()
    with pytest.raises(InputError, match="has no .prof file, expected one per rank"):
        read_matrix(folder)
