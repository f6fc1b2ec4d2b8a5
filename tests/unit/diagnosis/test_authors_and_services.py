"""Statements of authors beside the output of programs, and services that do not start."""

import pytest

from fabricast.core.errors import InputError

MATRICES = """Bidirectional P2P=Disabled Bandwidth Matrix (GB/s)
   D\\D     0      1      2
     0 918.31  25.76  25.91
     1  25.95 923.67  25.60
     2  26.15  25.68 923.74
Bidirectional P2P=Enabled Bandwidth Matrix (GB/s)
   D\\D     0      1      2
     0 919.56  41.38  41.37
     1  41.38 923.19  41.37
     2  41.37  41.36 921.56
"""


@pytest.mark.parametrize("line", ["3x RTX 4090", "- **GPUs**: 3 x NVIDIA GeForce RTX 4090", "GPU: 3× RTX 4090"])
def test_the_model_of_a_report_gives_an_expectation(first, line):
    found = first(f"{line}\n\nThe P2P is working, but i get 40 GB/s.\n{MATRICES}")
    assert str(found.verdict).startswith(
        "within the expected range: direct copies, both ways together, reach 41.4 GB/s"
    )


@pytest.mark.parametrize("line", ["4x RTX 4090", "we compared with 3x RTX 4090 of a friend", "3x RTX 9999"])
def test_other_lines_are_no_model(first, line):
    assert "name no known model of GPU" in str(first(f"{line}\n{MATRICES}").verdict)


def test_a_fabric_manager_without_switches_is_not_needed(first):
    status = "Job for nvidia-fabricmanager.service failed because the control process exited with error code.\n"
    found = first(status).findings[0]
    assert found.cause == "fabric_manager_service"
    assert "machines without NVSwitches" in found.remedy
    reason = (
        "nv-fabricmanager[4177]: request to query NVSwitch device information from NVSwitch driver failed with "
        "error:WARNING Nothing to do [NV_WARN_NOTHING_TO_DO]\n"
    )
    assert [one.cause for one in first(status + reason).findings] == ["no_nvswitch"]
    with pytest.raises(InputError, match="written by no known program"):
        first("The fabric manager is running.\n")


def test_ports_of_ibdev2netdev_are_read(first):
    found = first("mlx5_0 port 1 ==> ibs108 (Down)\nmlx5_1 port 1 ==> ens12f0np0 (Up)\n")
    assert not found.findings
    assert "interfaces that are down: ibs108 of mlx5_0 port 1" in " ".join(map(str, found.statements))


def test_a_general_failure_is_not_named_beside_its_cause(first):
    found = first(
        "a:1:1 [0] NCCL WARN Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA error 401 'x'\n"
        "ncclUnhandledCudaError: Call to CUDA function failed.\n"
    )
    assert len(found.findings) == 1
    assert "NVLS" in found.findings[0].text


def test_a_link_with_all_that_is_possible_asks_for_nothing(first):
    lines = "\t\tLnkCap: Port #0, Speed 32GT/s, Width x16, ASPM L1\n\t\tLnkSta: Speed 32GT/s, Width x16\n"
    assert "all that its device can use" in " ".join(map(str, first(lines).statements))
    assert "add LnkCap" in " ".join(map(str, first(lines.partition("\n")[2]).statements))


def test_the_old_transport_of_open_mpi_is_a_note_with_indentation(first):
    found = first(
        "We see\n By default, for Open MPI 4.0 and later, infiniband ports on a device\n  are not used by default.\n"
    )
    assert "does not use the network cards by its old transport" in " ".join(map(str, found.statements))
