"""Every command in README.md and the documentation runs, and every named option, target and profile exists."""

import itertools
import re
import shlex
import shutil

import pytest
import typer
from typer.testing import CliRunner

from fabricast.breakdown.components import read_systems
from fabricast.cli.main import app
from fabricast.core.resources import published
from fabricast.figures.catalogue.captions import caption_files
from tests.conftest import REPOSITORY
from tests.nccl_tests_logs import nccl_tests
from tests.network_files import discovery
from tests.traces import generate_timers, generate_trace

_GENERATED = {"_build", "_generated", "generated", "jupyter_execute"}
PAGES = [REPOSITORY / name for name in ("README.md", "CONTRIBUTING.md", "config/README.md", "containers/README.md")] + [
    path for path in sorted((REPOSITORY / "docs").rglob("*.md")) if not _GENERATED & set(path.parts)
]
DATA = REPOSITORY / "tests" / "data"
#: Commands without the arguments that they require: a name in the text, or a template.
_NAMED_ONLY = {"COMMAND", "FILE", "NAME", "ID", "name"}
#: Commands that need more than files: a GPU or a finished run. Their options are checked only.
_NOT_RUN = {("probes", "--run"), ("claims",)}


def commands(program):
    """Return the commands of a program in code spans and blocks without output, as lists of words."""
    found = {}
    for path in PAGES:
        text = path.read_text()
        spans = re.findall(rf"`({program}(?: [^`\n]*)?)`", text)
        blocks = re.findall(r"```bash\n(.*?)```", text, re.DOTALL)
        lines = [line.partition("  #")[0] for block in blocks for line in block.splitlines()]
        for command in [*spans, *(line for line in lines if line.split()[:1] == [program])]:
            found.setdefault(command, path)
    return found


def test_sessions_and_programs_are_found():
    assert len(commands("fabricast")) >= 30
    assert len(commands("snakemake")) >= 8
    assert len(commands("make")) >= 6


def click_command(words):
    """Return the click command that words select, and the words after its name."""
    command = typer.main.get_command(app)
    while words and hasattr(command, "commands") and not words[0].startswith("-"):
        assert words[0] in command.commands, f"no command {words[0]}"
        command, words = command.commands[words[0]], words[1:]
    return command, words


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with the files that the pages name."""
    folder = tmp_path_factory.mktemp("files")
    shutil.copy(DATA / "readme" / "topo.txt", folder)
    # No GPU is slow here.
    (folder / "p2p.txt").write_text((DATA / "readme" / "p2p.txt").read_text().replace(" 3.90", "25.90"))
    shutil.copy(folder / "p2p.txt", folder / "printed.txt")
    shutil.copy(DATA / "collectives" / "nccl_tests.log", folder / "all_reduce.log")
    shutil.copy(DATA / "collectives" / "nccl_debug_info.log", folder / "nccl.log")
    times = [(8, 25.0), (16, 25.0), (32, 25.0), (1 << 20, 90.0), (64 << 20, 500.0), (1 << 30, 5e3)]
    nccl_tests(folder / "cluster.log", times, ranks=16, hosts=2)
    machine = folder / "machine.yaml"
    result = CliRunner().invoke(
        app, ["topology", "import", str(folder / "topo.txt"), "--gpu", "L40S", "-o", str(machine)]
    )
    assert result.exit_code == 0, result.output
    (folder / "graphs.csv").write_text("graph,source,target\na,0,1\na,2,1\n")
    (folder / "measured.csv").write_text(
        "graph,communications,total_gb_per_s\none,0>1,25\nother,2>1,25\nboth,0>1 2>1,25\n"
    )
    (folder / "probes.csv").write_text(
        "graph,repetition,source,target,size_bytes,elapsed_s\nalone_local,0,0,1,1e9,0.04\nalone_local,1,0,1,1e9,0.041\n"
        "alone_crossing,0,0,2,1e9,0.042\nconflict,0,1,0,1e9,0.06\nconflict,0,2,0,1e9,0.09\n"
    )
    for pairs in (1, 4):
        times = "".join(f"{2**power} {1 + pairs * 2**power / 4e3:.2f}\n" for power in range(0, 21, 4))
        (folder / f"osu_k{pairs}.out").write_text(
            f"# OSU MPI Multi Latency Test v5.7\n# [ pairs: {pairs} ]\n# Size Latency (us)\n{times}"
        )
    latencies = "".join(f"{2**n} {2 + 2**n / 1e4:.4f}\n" for n in range(20))
    for name, title in (("osu_latency", "Latency"), ("multi_1", "Multi Latency"), ("multi_16", "Multi Latency")):
        (folder / f"{name}.out").write_text(f"# OSU MPI {title} Test v7.2\n# Size Latency (us)\n{latencies}")
    (folder / "osu_mbw_mr.out").write_text((folder / "osu_k4.out").read_text())
    (folder / "ibnetdiscover.txt").write_text(discovery())
    (folder / "topology.conf").write_text(
        "SwitchName=a Nodes=n[0-7]\nSwitchName=b Nodes=n[8-15]\nSwitchName=t Switches=a,b\n"
    )
    (network,) = re.findall(
        r"```yaml\n(groups: .*?)```", (REPOSITORY / "docs" / "howto" / "networks.md").read_text(), re.DOTALL
    )
    (folder / "network.yaml").write_text(network)
    (folder / "matrix.csv").write_text("source,target,size_bytes\n" + "".join(f"{n},{n + 1},1e6\n" for n in range(127)))
    (thunderx2,) = [one for one in read_systems(published() / "breakdown_components.csv") if one.system == "thunderx2"]
    generate_timers(thunderx2, iterations=500, jitter=0.02, overhead_ns=20.0, seed=6).to_csv(
        folder / "t.csv", index=False
    )
    generate_trace(thunderx2, posts=4_000, jitter=0.02, seed=6).to_csv(folder / "p.csv", index=False)
    result = CliRunner().invoke(
        app, ["collect", *map(str, sorted(folder.glob("osu_k*.out"))), "-o", str(folder / "mine.csv")]
    )
    assert result.exit_code == 0, result.output
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("text", commands("fabricast"))
def test_documented_commands_run(text, folder, tmp_path, monkeypatch):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    words = [
        found
        for word in shlex.split(text.replace("machine.xml", "machine.yaml"))[1:]
        for found in (sorted(path.name for path in tmp_path.glob(word)) if "*" in word else [word])
    ]
    if _NAMED_ONLY & set(words):
        words = [word for word in words if word not in _NAMED_ONLY]
    command, rest = click_command(words)
    options = {option for parameter in command.params for option in parameter.opts + parameter.secondary_opts}
    named = {word.partition("=")[0] for word in rest if re.match(r"--?[a-z]", word)}
    assert named <= options | {"--help"}, text
    takes_files = any(re.search(r"\.[a-z0-9]+$", word) or word in ("storm8", "thunderx2", "4D-64") for word in rest)
    not_run = any(set(one) <= set(words) for one in _NOT_RUN)
    if takes_files and not not_run and _NAMED_ONLY.isdisjoint(shlex.split(text)):
        outputs = {rest[number + 1] for number, word in enumerate(rest[:-1]) if word == "-o"}
        for name in outputs:
            (tmp_path / name).unlink(missing_ok=True)
        result = CliRunner().invoke(app, words)
        # `diagnose` exits with 1 if it has findings.
        assert result.exit_code in ((0, 1) if words[0] == "diagnose" else (0,)), (text, result.output, result.exception)
        assert all((tmp_path / name).is_file() for name in outputs), text


def test_named_targets_and_profiles_exist():
    targets = re.findall(r"^([a-z]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
    rules = {
        rule
        for path in (REPOSITORY / "Snakefile", *(REPOSITORY / "workflow" / "rules").glob("*.smk"))
        for rule in re.findall(r"^\s*(?:use )?rule (?:\w+ as )?(\w+)", path.read_text(), re.MULTILINE)
    }
    for command in commands("make"):
        for word in command.split()[1:]:
            assert word in targets or (REPOSITORY / word).parent.is_dir(), command
    user_files, captions = {"mine.yaml", "shards.yaml"}, caption_files()
    for command, page in commands("snakemake").items():
        words = shlex.split(command)[1:]
        for option, value in itertools.pairwise([*words, ""]):
            if option in ("--profile", "--configfile") and value not in user_files:
                assert (REPOSITORY / value).exists(), (page, command)
            elif option == "--forcerun":
                assert value in rules, (page, command)
        if words and not words[0].startswith("-"):
            figure = words[0].removeprefix("reports/figures/").removesuffix(".svg").replace(".", "/")
            assert words[0] in rules or f"{figure}.rst" in captions, (page, command)
