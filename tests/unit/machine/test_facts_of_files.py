"""Facts of all files of a machine: none is lost, replaced or decided before the others are read."""

import subprocess
import sys

import pytest

import fabricast as fc
from fabricast.core.warnings import WarningCode
from tests.unit.diagnosis.pasted import debug_log, nccl_tests, peer_test
from tests.unit.pcie.topology.test_gpu_reports import query
from tests.unit.pcie.topology.test_listings import groups, matrix
from tests.unit.pcie.topology.test_peer_access import every, without_access

FOUR = matrix(groups((4, "PHB")), numa=[0] * 4)
HOST = """nvbandwidth Version: v0.8
Running host_to_device_memcpy_ce.
memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)
           0         1         2         3
 0     25.00     25.00     25.00     25.00

SUM host_to_device_memcpy_ce 100.00

Running device_to_host_memcpy_ce.
memcpy CE CPU(row) <- GPU(column) bandwidth (GB/s)
           0         1         2         3
 0     26.00     26.00     26.00     26.00

SUM device_to_host_memcpy_ce 104.00
"""


@pytest.fixture
def written(tmp_path):
    """Return a function that writes files and returns their paths."""

    def write(**texts):
        for name, text in texts.items():
            (tmp_path / f"{name}.txt").write_text(text)
        return [tmp_path / f"{name}.txt" for name in texts]

    return write


def test_host_copies_do_not_restore_peer_access(written):
    """A table of host copies states nothing about peer access, which another file refuses for all pairs."""
    paths = written(topo=FOUR, access=every("CNS"), host=HOST, log=nccl_tests("all_reduce", 4, {1 << 26: 9e4}))
    tree = fc.load_machine(paths, gpu="RTX 4090").tree
    assert len(tree.staged_pairs) == 12
    found = fc.diagnose(paths, gpu="RTX 4090", cpu="amd")
    assert all("NCCL_P2P_LEVEL" not in one.remedy for one in found.findings)
    assert WarningCode.HOST_RATES_UNKNOWN not in {one.code for one in found.warnings}


def test_the_gpu_model_by_option_keeps_the_stated_width(written):
    full, narrow = (4, "16x", "16x"), (4, "16x", "4x")
    paths = written(topo=FOUR, smi=query(full, full, full, narrow, name="NVIDIA GeForce RTX 4090"))
    for options in ({}, {"gpu": "RTX 4090"}):
        tree = fc.load_machine(paths, **options).tree
        assert [tree.vertex(name).width for name in tree.accelerator_names] == [16, 16, 16, 4]
    option = fc.load_machine(paths, link="gen4x16")
    assert option.tree.vertex("3").width == 16
    assert any("gen4x4 of GPU 3: the option is used" in one.text for one in option.warnings)


def test_every_measurement_is_compared(written):
    slow = [[26.0] * 4 for _ in range(4)]
    for other in range(4):
        slow[3][other] = slow[other][3] = 3.9
    for first, second in ((HOST, peer_test(slow)), (peer_test(slow), HOST)):
        paths = written(topo=FOUR, first=first, second=second)
        assert "slow_endpoint" in {one.cause for one in fc.diagnose(paths, gpu="RTX 4090").findings}


def test_a_slow_gpu_is_named_if_all_copies_pass_through_host_memory(written):
    text = without_access(12.0)
    rows = text.splitlines()
    slow = [row[:-7] + "   4.00" if row[:6].strip() in {"0", "1", "2"} else row for row in rows]
    slow = ["     3   4.00   4.00   4.00 900.00" if row[:6].strip() == "3" else row for row in slow]
    paths = written(topo=FOUR, p2p="\n".join(slow) + "\n")
    (finding,) = [one for one in fc.diagnose(paths, gpu="RTX 4090").findings if "GPU 3" in one.text]
    assert finding.cause == "slow_endpoint"


def test_a_damaged_block_does_not_spoil_the_others(written):
    damaged = FOUR.replace("GPU2\tPHB", "GPU2\t?", 1)
    paths = written(session=f"$ nvidia-smi topo -m\n{damaged}\n{peer_test([[26.0] * 4] * 4)}", topo=FOUR)
    machine = fc.load_machine(paths, gpu="A100")
    assert len(machine.graphs) == 12
    (text,) = [one.text for one in machine.warnings if one.code is WarningCode.PART_UNREADABLE]
    assert text.startswith(str(paths[0])) and "it is left out" in text


@pytest.mark.parametrize(
    "form", ["[0x{:02x}]", "[{:02x}:00]", "[0000:{:02x}:00]", "[0000:{:02x}:00.0]", "[00000000:{:02X}:00.0]"]
)
def test_every_form_of_an_address_is_that_of_the_gpu(written, form):
    """Ranks of nccl-tests are the GPUs with their addresses, in whichever form a program prints them."""
    log = nccl_tests("all_reduce", 2, {1 << 26: 9e3})
    for rank in range(2):
        log = log.replace(f"[0000:{16 + rank:02x}:00]", form.format((5, 6)[rank]))
    smi = query(*[(4, "16x", "16x")] * 4, name="NVIDIA L40S")
    paths = written(topo=FOUR, smi=smi, log=log)
    forecast = fc.collective(paths, cpu="amd")
    assert forecast.communicator.ranks == ("2", "3")
    assert not {WarningCode.RANKS_ASSUMED, WarningCode.ADDRESSES_DIFFER} & {one.code for one in forecast.warnings}


def test_a_warning_asks_for_no_measurement_that_another_file_has(written):
    topology, peers, host = written(topo=FOUR, p2p=peer_test([[26.0] * 4] * 4), host=HOST)
    for files in ([topology, peers, host], [host, topology, peers]):
        machine = fc.load_machine(files, gpu="A100")
        codes = {one.code for one in fc.predict(machine, [("H", 0)]).attrs["warnings"]}
        assert WarningCode.PATH_CLASS_UNMEASURED not in codes
    codes = {one.code for one in fc.predict([topology, peers], [("H", 0)], gpu="A100").attrs["warnings"]}
    assert WarningCode.PATH_CLASS_UNMEASURED in codes


#: Counts how often each file is opened, and how often the machine is calibrated.
_COUNT = """
import collections, os, sys
import fabricast.machine.machine as machine
opened, calibrated, calibrate = collections.Counter(), [], machine.calibrate_machine
def counting(*arguments, **options):
    calibrated.append(1)
    return calibrate(*arguments, **options)
machine.calibrate_machine = counting
def note(event, arguments):
    if event == "open" and isinstance(arguments[0], (str, bytes)):
        opened[os.path.basename(os.fsdecode(arguments[0]))] += 1
sys.addaudithook(note)
from fabricast.cli.main import app
app(sys.argv[2:], standalone_mode=False)
print({name: opened[name] for name in sys.argv[1].split()}, len(calibrated), file=sys.stderr)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ["predict", "--copies", "0>1 2>3", "--transport", "both"],
        ["simulate", "--copies", "0>1"],
        ["collective", "--cpu", "amd"],
        ["validate"],
        ["diagnose", "--cpu", "amd"],
        ["calibrate"],
        ["schedule", "--halo", "2x2", "--top", "1"],
    ],
    ids=lambda command: command[0],
)
def test_each_file_is_opened_once_and_the_machine_calibrated_once(written, tmp_path, command):
    log = debug_log(4, [0, 1, 2, 3]) + nccl_tests("all_reduce", 4, {1 << 26: 9e3})
    texts = {
        "topo": FOUR,
        "smi": query(*[(4, "16x", "16x")] * 4, name="NVIDIA A100"),
        "p2p": peer_test([[26.0] * 4] * 4),
    }
    texts |= {"host": HOST, "log": log}
    written(**texts)
    names = [f"{name}.txt" for name in texts]
    done = subprocess.run(
        [sys.executable, "-c", _COUNT, " ".join(names), command[0], *names, *command[1:]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    *_, last = done.stderr.strip().splitlines()
    opened, _, calibrations = last.rpartition(" ")
    assert opened == str(dict.fromkeys(names, 1)), done.stderr
    assert int(calibrations) <= 1


def test_gpus_without_bridges_complete_a_matrix_but_do_not_replace_it(tmp_path):
    """`lspci -d 10de:` prints GPUs only, which then seem to have a host bridge each."""
    (tmp_path / "topo.txt").write_text(matrix(groups((2, "PHB"), (2, "NODE")), numa=[0] * 4))
    devices = [
        f"{bus:02x}:00.0 3D controller: NVIDIA Corporation AD102GL [L40S]\n\tNUMA node: 0\n"
        f"\tCapabilities: [78] Express (v2) Endpoint\n\t\tLnkCap: Port #0, Speed 16GT/s, Width x16\n"
        f"\t\tLnkSta: Speed 16GT/s, Width x{4 if bus == 65 else 16}\n"
        for bus in (1, 2, 65, 66)
    ]
    (tmp_path / "lspci.txt").write_text("\n".join(devices))
    tree = fc.load_machine([tmp_path / "lspci.txt", tmp_path / "topo.txt"]).tree
    assert [tree.path_class("0", other) for other in "123"] == ["PHB", "NODE", "NODE"]
    assert [tree.vertex(gpu).width for gpu in "0123"] == [16, 16, 4, 16]
    alone = fc.load_machine(tmp_path / "lspci.txt").tree
    assert alone.path_class("0", "1") == "NODE"
