"""Files and commands of the study of two-level networks."""

import numpy as np
import pytest
from scipy.io import mmwrite
from typer.testing import CliRunner

from fabricast.cli.main import app
from fabricast.core.errors import InputError
from fabricast.networks.launcher_files import write_rank_files
from fabricast.networks.matrices import read_matrix
from tests.unit.percs.networks import small


def test_rank_files_are_written_and_validated(tmp_path):
    network = small(2)
    hosts = [f"n{i}" for i in range(12)]
    files = write_rank_files(np.array([3, 3, 0]), network.cores_per_router, hosts, tmp_path / "best")
    assert files[0].read_text() == "rank 0=n3 slot=0\nrank 1=n3 slot=1\nrank 2=n0 slot=0\n"
    assert files[1].read_text() == "n3\nn3\nn0\n"
    with pytest.raises(InputError, match="2 hosts"):
        write_rank_files(np.array([3]), network.cores_per_router, hosts[:2], tmp_path / "x")
    with pytest.raises(InputError, match="more ranks"):
        write_rank_files(np.array([3, 3, 3]), network.cores_per_router, hosts, tmp_path / "x")


def test_matrix_formats_are_read_and_validated(tmp_path):
    dense = np.array([[0, 5.0, 0], [1.0, 9.0, 0], [0, 2.0, 0]])
    (tmp_path / "m.csv").write_text("\n".join(",".join(map(str, row)) for row in dense))
    mmwrite(tmp_path / "m.mtx", dense)
    (tmp_path / "list.csv").write_text("source,target,size_bytes\n0,1,5\n1,0,1\n2,1,2\n1,1,9\n")
    for name in ("m.csv", "m.mtx", "list.csv"):
        source, target, size, ranks = read_matrix(tmp_path / name)
        assert sorted(zip(source, target, size, strict=True)) == [(0, 1, 5), (1, 0, 1), (2, 1, 2)], name
        assert ranks == 3
    for text in (
        "1,2\n",
        "0,x\n1,0\n",
        "0,-1\n1,0\n",
        "0,0\n0,0\n",
        "source,target,size_bytes\n0.5,1,1\n",
        "source,target,size_bytes\n0,1,-1\n",
        "source,target\n0,1\n",
    ):
        (tmp_path / "bad.csv").write_text(text)
        with pytest.raises(InputError, match=r"bad\.csv"):
            read_matrix(tmp_path / "bad.csv")
    for name in ("none.csv", "none.mtx"):
        with pytest.raises(InputError, match="none"):
            read_matrix(tmp_path / name)


@pytest.mark.slow
def test_network_and_map_commands(tmp_path):
    runner = CliRunner()
    result = runner.invoke(app, ["network", "loads", "4D-64"])
    assert "busiest link 214.7 ms (D)" in result.output
    assert "busiest link 17.32 ms (D)" in result.output
    machine = tmp_path / "machine.yaml"
    machine.write_text(
        "groups: 4\nrouters_per_drawer: 2\ncores_per_router: 2\nll_bytes_per_s: 1.0e+10\nd_bytes_per_s: 5.0e+9\n"
        "injection_bytes_per_s: 1.0e+11\n"
    )
    matrix = tmp_path / "ring.csv"
    ranks = 16
    lines = [f"{n},{(n + 4) % ranks},1000000" for n in range(ranks)]
    matrix.write_text("source,target,size_bytes\n" + "\n".join(lines) + "\n")
    simulated = runner.invoke(app, ["network", "simulate", str(matrix), "--network", str(machine), "--packet", "1KB"])
    assert simulated.exit_code == 0, simulated.output
    hosts = tmp_path / "hosts.txt"
    hosts.write_text("".join(f"node{n}\n" for n in range(8)))
    mapped = runner.invoke(
        app,
        [
            "map",
            str(matrix),
            "--network",
            str(machine),
            "--proposals",
            "2000",
            "--hosts",
            str(hosts),
            "-o",
            str(tmp_path / "best"),
        ],
    )
    assert mapped.exit_code == 0, mapped.output
    assert len((tmp_path / "best.hosts").read_text().split()) == ranks
    # Each node of two ranks sends and receives two messages of 1 MB at 100 GB/s.
    assert "busiest node: injection 0.02 ms, ejection 0.02 ms with any mapping\n" in mapped.output
    machine.write_text(machine.read_text().replace("1.0e+11", "1.0e+9"))
    limited = runner.invoke(app, ["map", str(matrix), "--network", str(machine), "--proposals", "1000"])
    assert "ejection 2 ms with any mapping; nodes limit the step, not links" in limited.output
    machine.write_text(machine.read_text().replace("1.0e+9", "1.0e+11"))
    tiled = runner.invoke(app, ["network", "loads", str(matrix), "--groups", "4", "--tiles", "16"])
    assert "256 ranks" in tiled.output, tiled.output
    twice = tmp_path / "twice.txt"
    twice.write_text("a\na\n")
    bad = [
        ["network", "loads", "5D"],
        ["network", "loads", "4D-64", "--mapping", "XYZ"],
        ["network", "loads", "4D-64", "--groups", "1"],
        ["network", "loads", "4D-64", "--gateway", "door"],
        ["network", "loads", "4D-64", "--groups", "8"],
        ["network", "loads", str(matrix), "--network", str(machine), "--mapping", "BSM"],
        ["network", "loads", str(matrix), "--network", str(machine), "--groups", "4"],
        ["network", "simulate", "MCrand-64"],
        ["network", "simulate", "2D-64", "--packet", "none"],
        ["network", "simulate", "2D-64", "--routing", "fastest"],
        ["network", "simulate", "2D-64", "--window", "0"],
        ["map", "4D-64", "--proposals", "1"],
        ["map", "4D-64", "--groups", "8"],
        ["map", str(matrix), "--network", str(machine), "--hosts", str(twice)],
    ]
    for arguments in bad:
        assert isinstance(runner.invoke(app, arguments).exception, InputError), arguments
    machine.write_text("groups: 4\nspeed: 1\n")
    assert isinstance(
        runner.invoke(app, ["network", "loads", str(matrix), "--network", str(machine)]).exception, InputError
    )


@pytest.mark.parametrize("command", [["network", "loads"], ["network", "simulate"], ["map"]])
def test_misspelt_pattern_is_reported_before_missing_options(command):
    result = CliRunner().invoke(app, [*command, "4D-64x"])
    assert isinstance(result.exception, InputError)
    assert str(result.exception).startswith("pattern '4D-64x' is unknown (did you mean '4D-64'")


def test_map_result_is_at_least_as_good_as_named_mappings(tmp_path):
    # Eight nodes of a large network with messages between consecutive ranks: rank order is hard to improve.
    matrix, hosts = tmp_path / "row.csv", tmp_path / "hosts.txt"
    lines = [f"{n},{n + 1},1000000" for n in range(8 * 4 - 1)]
    matrix.write_text("source,target,size_bytes\n" + "\n".join(lines) + "\n")
    hosts.write_text("".join(f"node{n:03}\n" for n in range(128)))
    call = ["map", str(matrix), "--groups", "4", "--ranks-per-node", "4", "--proposals", "1000", "--hosts", str(hosts)]
    result = CliRunner().invoke(app, [*call, "-o", str(tmp_path / "best")])
    assert result.exit_code == 0, result.output
    rows = [line.split() for line in result.output.splitlines() if line.startswith("  ") and ":" not in line]
    times = {row[0]: float(row[1]) for row in rows if row[2] in ("ms", "ms,")}
    best = times.get("search", times["DEF"])
    assert best <= min(times["DEF"], times["RNM"])
    assert len((tmp_path / "best.hosts").read_text().split()) == 32
    for text, message in (
        ("", "contains no host name"),
        ("node0 slot=0:*\n", "expected a name of letters"),
        ("#node\n", "contains no host name"),
        ("node0\n", "1 hosts are named, expected one for each of the 128 routers"),
        ("a\0b\n", "NUL byte"),
    ):
        hosts.write_text(text)
        error = CliRunner().invoke(app, [*call, "-o", str(tmp_path / "other")]).exception
        assert message in str(error), text
    assert "host names" in str(CliRunner().invoke(app, [*call[:-2], "-o", str(tmp_path / "other")]).exception)
    assert not list(tmp_path.glob("other*"))


def test_patterns_of_switched_networks_are_named_as_such(tmp_path):
    network = tmp_path / "network.yaml"
    network.write_text("groups: 16\ndrawers_per_group: 2\nrouters_per_drawer: 4\n")
    for command in (["map"], ["network", "loads"]):
        result = CliRunner().invoke(app, [*command, "halo:4x4x8", "--network", str(network)])
        assert isinstance(result.exception, InputError)
        assert "describes no network of switches" in str(result.exception)
        result = CliRunner().invoke(app, [*command, "halo:4x4x8", "--network", str(tmp_path / "missing.yaml")])
        assert "cannot be read" in str(result.exception)
