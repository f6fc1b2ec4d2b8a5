"""Lines that say the opposite of a fault, and facts of a machine that a statement names."""

import pytest

import fabricast as fc
from fabricast.sources.reading import facts_of_text

TOPO = "\tGPU0\tGPU1\tGPU2\nGPU0\t X \tPIX\tSYS\nGPU1\tPIX\t X \tSYS\nGPU2\tSYS\tSYS\t X \n"


def diagnosis(tmp_path, text, name="run.log"):
    path = tmp_path / name
    path.write_text(text)
    return fc.diagnose(path)


def test_a_connection_that_succeeds_is_no_fault(tmp_path):
    start = (
        "[I socket.cpp:720] [c10d - debug] The client socket will attempt to connect to an IPv6 address of (n1, 5972)."
    )
    ready = "[I socket.cpp:884] [c10d] The client socket has connected to [n1]:5972 on [n2]:35952."
    failed = "[W socket.cpp:601] [c10d] The client socket has failed to connect to [n1]:5972 (errno: 113 - No route)."
    assert not facts_of_text(f"{start}\n{ready}\n").blocks
    found = diagnosis(tmp_path, f"{start}\n{ready}\n{failed}\n")
    (finding,) = found.findings
    assert "failed to connect" in finding.text and finding.origin.endswith(":3")


def test_the_exhausted_contexts_precede_the_card_that_cannot_be_opened(tmp_path):
    text = (
        "n1.304088hfi_userinit_internal: assign_context command failed: Device or resource busy\n"
        "n1.304088PSM2 can't open hfi unit: 0 (err=23)\n"
    )
    assert "no context of the Omni-Path card" in str(diagnosis(tmp_path, text).verdict)


def test_an_error_that_quotes_the_level_of_nccl_is_an_error(tmp_path):
    text = '"Duplicate GPU detected : rank 1 and rank 0 both on CUDA device a4000" from NCCL INFO.\n'
    assert "two ranks use the same GPU" in str(diagnosis(tmp_path, text).verdict)
    info = "n1:7:9 [0] NCCL INFO Duplicate GPU detected : rank 1 and rank 0 both on CUDA device a4000\n"
    assert not diagnosis(tmp_path, info).findings


@pytest.mark.parametrize("disabled", [True, False])
def test_the_variable_that_excludes_cards_is_what_to_change(tmp_path, disabled):
    begin = "n1:47:47 [3] NCCL INFO "
    setting = f"{begin}NCCL_IB_DISABLE set by environment to {int(disabled)}.\n"
    lines = f"{begin}Bootstrap : Using eth0:10.0.0.5<0>\n{begin}NET/IB : No device found.\n{setting}"
    verdict = str(diagnosis(tmp_path, f"{lines}{begin}Using network Socket\n").verdict)
    assert ("unset NCCL_IB_DISABLE=1" in verdict) is disabled and ("/dev/infiniband" in verdict) is not disabled


def test_the_ways_between_gpus_are_counted(tmp_path):
    (statement,) = diagnosis(tmp_path, TOPO, "topo.txt").statements
    assert statement.endswith("1 pair below one switch (PIX), 2 pairs between NUMA nodes (SYS)")


def test_pairs_without_peer_access_are_those_that_tensorrt_llm_names(tmp_path):
    lines = [f"[TensorRT-LLM][WARNING] Device {one} peer access Device {1 - one} is not available." for one in (0, 1)]
    (statement,) = diagnosis(tmp_path, "\n".join(lines)).statements
    assert statement.startswith("one pair of GPUs has no peer access")


def test_lines_of_the_kernel_may_begin_with_host_and_level(tmp_path):
    line = (
        "10.0.0.9: kern: warning: [2026-04-22T21:27:51.291Z]: NVRM: kflcnCoreDumpNondestructive_IMPL: TRACE: 03 = 0x5\n"
    )
    assert "its system processor (GSP) failed" in str(diagnosis(tmp_path, line).verdict)


def test_old_transports_and_links_of_oneccl_are_notes(tmp_path):
    line = "2026:07:17-12:29:00:(  532) |CCL_WARN| topology recognition shows PCIe connection between devices.\n"
    found = diagnosis(tmp_path, line)
    assert not found.findings and "no Xe Link" in found.statements[0]
