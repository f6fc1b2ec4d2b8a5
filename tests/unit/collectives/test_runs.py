"""Runs of nccl-tests on this machine, with programs that stand in for nvidia-smi and all_reduce_perf."""

import os
import stat

import pytest

import fabricast as fc
from fabricast.collectives.evidence.runs import has_measurements, measure_to_files, unavailable_reason
from fabricast.collectives.evidence.tables import collective_tables
from fabricast.core.errors import InputError
from tests.unit.collectives.test_interfaces import TABLE

SYSTEM = """<system version="1">
  <cpu numaid="0" affinity="ffff" arch="x86_64" vendor="AuthenticAMD" familyid="175" modelid="17">
{pci}  </cpu>
</system>
"""
SWITCH = """    <pci busid="0000:{bus}0:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:{bus}6:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16"/>
      <pci busid="0000:{bus}7:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16"/>
    </pci>
"""


def program(folder, name, text):
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Return a folder in PATH with programs of a machine with four GPUs."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")
    program(folder, "nvidia-smi", 'for n in 0 1 2 3; do echo "GPU $n: NVIDIA L40S (UUID: GPU-$n)"; done\n')
    (tmp_path / "table.txt").write_text(TABLE)
    (tmp_path / "system.xml").write_text(SYSTEM.format(pci=SWITCH.format(bus=1) + SWITCH.format(bus=9)))
    text = f'cp {tmp_path}/system.xml "$NCCL_TOPO_DUMP_FILE"\necho "arguments $*" >> {tmp_path}/calls\n'
    program(folder, "all_reduce_perf", f"{text}cat {tmp_path}/table.txt\n")
    return folder


def test_all_gpus_are_measured_and_forecast(machine, tmp_path):
    log, topology = tmp_path / "this_machine.log", tmp_path / "this_machine.xml"
    assert unavailable_reason() is None
    assert measure_to_files(log, topology) == "all_reduce on 4 GPUs"
    assert "-g 4" in (tmp_path / "calls").read_text()
    assert has_measurements(log)
    assert sorted(path.name for path in tmp_path.glob("this_machine*")) == ["this_machine.log", "this_machine.xml"]
    forecast = fc.collective(topology, log=log)
    times = collective_tables([("this_machine", forecast)]).collective_time
    own = times[times["system"] == "this_machine"]
    assert own["size_bytes"].tolist() == [4096, 16777216]
    assert (own["forecast_s"] > 0).all()


def test_choices_of_the_log_are_forecast(machine, tmp_path):
    # The cost table takes LL for 4 KiB; this log states another choice (NCCL_DEBUG_SUBSYS=TUNING).
    log, topology = tmp_path / "a.log", tmp_path / "a.xml"
    measure_to_files(log, topology)
    emulated = fc.collective(topology, log=log).table.set_index("size_bytes")
    assert emulated["protocol"].tolist() == ["ll", "simple"]
    line = "n:1:2 [0] NCCL INFO AllReduce: 4096 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..1}\n"
    log.write_text(line + log.read_text())
    stated = fc.collective(topology, log=log).table.set_index("size_bytes")
    assert stated["protocol"].tolist() == ["simple", "simple"]
    assert stated.loc[4096, "time_us"] > 1.5 * emulated.loc[4096, "time_us"]
    # The diagnosis judges the choice that was used, not that of the cost table.
    causes = [one.text for one in fc.diagnose([topology, log]).findings if one.cause == "protocol_choice"]
    assert len(causes) == 1, causes
    assert "ring simple at 4 KiB; ring ll" in causes[0]


def test_a_missing_program_or_gpu_is_the_reason(machine, tmp_path):
    log, topology = tmp_path / "a.log", tmp_path / "a.xml"
    program(machine, "nvidia-smi", 'echo "GPU 0: one"\n')
    assert measure_to_files(log, topology) == "nothing measured: all_reduce needs two GPUs, and nvidia-smi lists 1"
    assert not has_measurements(log)
    (machine / "all_reduce_perf").unlink()
    assert measure_to_files(log, topology) == "nothing measured: all_reduce_perf of nccl-tests is not in PATH"
    assert log.read_text() == "# nothing measured: all_reduce_perf of nccl-tests is not in PATH\n"
    assert topology.is_file()


def test_a_tool_that_does_not_end_is_no_gpu(machine, monkeypatch):
    monkeypatch.setattr("fabricast.collectives.evidence.runs._LIST_TIMEOUT_S", 0.01)
    program(machine, "nvidia-smi", "exec sleep 60\n")
    assert unavailable_reason() == "all_reduce needs two GPUs, and nvidia-smi lists 0"


def test_a_failed_run_is_one_line_without_files(machine, tmp_path):
    program(machine, "all_reduce_perf", 'echo "Test NCCL failure common.cu:961 unhandled cuda error" >&2\nexit 2\n')
    with pytest.raises(InputError, match="all_reduce_perf -g 4 failed with code 2: Test NCCL failure"):
        measure_to_files(tmp_path / "a.log", tmp_path / "a.xml")
    assert not (tmp_path / "a.log").exists()
