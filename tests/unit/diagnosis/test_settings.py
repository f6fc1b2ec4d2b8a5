"""Settings of NCCL as causes: their cost in the forecast, NVLinks that they switch off, and commands that set them."""

import pytest

import fabricast as fc
from tests.nccl_tests_logs import nccl_tests as nccl_tests_log
from tests.unit.diagnosis.pasted import debug_log, nccl_tests
from tests.unit.diagnosis.test_hosts_and_curves import FORECAST, forecast_rows, host_log
from tests.unit.pcie.topology.test_listings import groups, matrix

SIZES = [1 << power for power in range(20, 29)]


@pytest.fixture
def workstation(tmp_path):
    """Return a function that diagnoses a log of four GPUs with some settings, whose times are those of a forecast."""
    (tmp_path / "topo.txt").write_text(matrix(groups((2, "PIX"), (2, "NODE"))))

    def diagnose(setting, *, times_of=None, factor=1.0):
        env = dict([setting.split("=")] if times_of is None else times_of)
        known = {"gpu": "L40S", "cpu": "AMD EPYC"}
        table = fc.collective(tmp_path / "topo.txt", sizes=SIZES, env=env, nccl_version="2.21.5", **known).table
        times = dict(zip(table["size_bytes"], factor * table["time_us"], strict=True))
        name, value = setting.split("=")
        log = debug_log(4, [0, 1, 2, 3], env=f"{name} set by environment to {value}")
        (tmp_path / "run.log").write_text(log + nccl_tests("all_reduce", 4, times))
        return fc.diagnose([tmp_path / "topo.txt", tmp_path / "run.log"], **known)

    return diagnose


def test_a_protocol_that_costs_time_is_the_first_cause(workstation):
    found = workstation("NCCL_PROTO=LL")
    first = found.findings[0]
    assert (first.cause, first.remedy) == ("costly_settings", "unset NCCL_PROTO")
    assert first.text.startswith("NCCL_PROTO=LL is set; without it, all_reduce of 256 MiB is ")
    assert "NCCL_PROTO set by environment" in (found_line := line_of(first.origin)), found_line
    assert str(found.verdict).startswith("slower than expected: NCCL_PROTO=LL is set")
    # What the model would choose follows from the setting.
    assert not {"protocol_choice", "chunk_size"} & {one.cause for one in found.findings}


def line_of(origin):
    path, _, number = origin.rpartition(":")
    with open(path) as file:
        return file.read().splitlines()[int(number) - 1]


def test_a_setting_is_no_cause_where_measured_times_are_those_without_it(workstation):
    found = workstation("NCCL_PROTO=LL", times_of={})
    assert "costly_settings" not in {one.cause for one in found.findings}


def test_a_setting_without_forecast_is_named_for_slow_runs_only(workstation):
    slow = workstation("NCCL_NTHREADS=64", times_of={}, factor=3.0)
    assert slow.findings[0].cause == "settings_to_check" or "settings_to_check" in {one.cause for one in slow.findings}
    assert "NCCL_NTHREADS=64 is set in a slow run" in str(slow.findings)
    assert "settings_to_check" not in {one.cause for one in workstation("NCCL_NTHREADS=64", times_of={}).findings}


def test_channels_of_a_cluster_that_cost_time_are_named(tmp_path):
    few = fc.cluster_collective(
        "hgx_h100",
        "all_reduce",
        sizes=[2.0**28, 2.0**30],
        nodes=4,
        nic="8x400",
        env={"NCCL_MAX_NCHANNELS": "2", "NCCL_ALGO": "Ring"},
    ).table
    # Two channels use two of the eight cards.
    assert few["bus_gb_per_s"].max() < 2 * 50
    rows = list(zip(few["size_bytes"].astype(int), few["time_us"], strict=True))
    log = nccl_tests_log(tmp_path / "run.log", rows)
    setting = "node00:1:9 [0] NCCL INFO NCCL_MAX_NCHANNELS set by environment to 2\n"
    log.write_text(host_log() + setting + log.read_text())
    found = fc.diagnose(log)
    assert found.findings[0].cause == "costly_settings" and "NCCL_MAX_NCHANNELS=2" in found.findings[0].text
    assert [one.cause for one in found.findings].count("settings_to_check") == 0


def test_settings_of_a_command_are_those_of_the_run(tmp_path):
    log = nccl_tests_log(tmp_path / "run.log", forecast_rows("all_reduce", "8x400"))
    command = "$ mpirun -np 32 -x NCCL_IB_DISABLE=1 -x NCCL_DEBUG=WARN -x NCCL_SOCKET_IFNAME=$IF all_reduce_perf -g 1\n"
    verbs = "node00:1:9 [0] misc/ibvwrap.cc:63 NCCL WARN Failed to open libibverbs.so[.1]\n"
    log.write_text(verbs + log.read_text())
    assert "install rdma-core" in str([one.remedy for one in fc.diagnose(log).findings])
    log.write_text(command + log.read_text())
    found = fc.diagnose(log)
    assert "NCCL_IB_DISABLE=1" in str(found.statements) and "NCCL_SOCKET_IFNAME" not in str(found.statements)
    # The user chose TCP.
    assert "install rdma-core" not in str([one.remedy for one in found.findings])


@pytest.mark.parametrize("setting", ["NCCL_P2P_LEVEL=LOC", "NCCL_P2P_DISABLE=1"])
def test_settings_that_switch_nvlinks_off_are_the_first_cause(tmp_path, setting):
    name, value = setting.split("=")
    (tmp_path / "nccl.log").write_text(f"{name} set by environment to {value}\n")
    links = "".join(f"GPU {one}: NVIDIA A40 (UUID: GPU-{one})\n\t Link 0: 25 GB/s\n" for one in range(2))
    (tmp_path / "links.txt").write_text(links)
    found = fc.diagnose([tmp_path / "links.txt", tmp_path / "nccl.log"]).findings
    assert [(one.cause, one.remedy) for one in found] == [("links_switched_off", f"unset {name}")]
    # Without links, the setting may be right.
    (tmp_path / "links.txt").write_text(links.replace("\t Link 0: 25 GB/s\n", ""))
    assert not fc.diagnose([tmp_path / "links.txt", tmp_path / "nccl.log"]).findings


def test_a_variable_of_one_host_is_named(tmp_path):
    lines = host_log()
    for host in range(4):
        lines += f"node{host:02}:1:9 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth0\n"
    lines += "node02:1:9 [0] NCCL INFO NCCL_ALGO set by environment to Ring\n"
    (tmp_path / "nccl.log").write_text(lines)
    (found,) = fc.diagnose(tmp_path / "nccl.log").findings
    assert (found.cause, found.text) == ("host_differs_settings", "NCCL_ALGO=Ring is set on 1 of 4 hosts (node02)")


def test_lines_of_nccl_about_gpudirect_are_a_cause_without_hops(tmp_path):
    start = "node00:1:9 [0] NCCL INFO "
    text = f"{start}NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'\n{start}Using network IB\n"
    (tmp_path / "nccl.log").write_text(text)
    (found,) = fc.diagnose(tmp_path / "nccl.log").findings
    assert found.cause == "no_gpudirect" and found.origin.endswith("nccl.log:1")
    (tmp_path / "nccl.log").write_text(text.replace("Disabled", "Enabled"))
    assert not fc.diagnose(tmp_path / "nccl.log").findings


def test_the_log_of_a_second_run_keeps_its_own_hosts(tmp_path):
    (tmp_path / "good.log").write_text(host_log())
    (tmp_path / "bad.log").write_text(host_log(other={"gpudirect": False}))
    for order in (("good.log", "bad.log"), ("bad.log", "good.log")):
        (found,) = fc.diagnose([tmp_path / name for name in order]).findings
        assert found.text.startswith("node02 sends without GPUDirect RDMA") and "bad.log" in found.origin


def test_public_machines_with_other_cards_are_no_reference(tmp_path):
    rows = [(size, 4.0 * time) for size, time in FORECAST[3:]]
    log = nccl_tests_log(tmp_path / "run.log", rows)
    log.write_text(log.read_text().replace("NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"))
    without = fc.diagnose(log)
    # Few public clusters are of this class: a forecast with assumed cards is compared.
    assert str(without.verdict).startswith("possibly slower") and "if these are its cards" in str(without.verdict)
    log.write_text(host_log(cards=4) + log.read_text())
    assert "1 public machine" not in str(fc.diagnose(log).verdict)
