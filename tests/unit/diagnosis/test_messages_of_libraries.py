"""Messages of NCCL, NVSHMEM, UCX, libfabric and launchers from reports, and what a report without a cause is asked for."""

import pytest

from fabricast.core.errors import InputError


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            "RuntimeError: NCCL Error 2: unhandled system error (run with NCCL_DEBUG=INFO for details)",
            "operating system",
        ),
        ("about NCCL error：unhandled system error", "operating system"),
        ("# NCCL WARN NET/OFI Request completed with error. RC: 21. Error: unknown error", "failed in libfabric"),
        (
            "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
            "that rank ended, or the network failed",
        ),
        ("a:1:1 [5] NCCL WARN NET/GPUDirectTCPX failed to connect", "GPUDirect-TCPX failed"),
        ("Error in mlx5dv_devx_obj_modify for INIT2RTR_QP with syndrome 764216", "NVSHMEM cannot connect"),
        ("nvshmem setup connections failed", "NVSHMEM cannot connect"),
        (
            "modprobe: FATAL: Module nvidia-peermem not found in directory /lib/modules/6.8.0",
            "not installed for the kernel",
        ),
        ("open(file_name=/proc/109541/fd/33 flags=0x0) failed: No such file or directory", "through /proc"),
        (
            "RXC: Flow control triggered due to failure to append LE. Software endpoint mode required.",
            "list of receives",
        ),
        ("(GTL DEBUG: 1) cuIpcOpenMemHandle: invalid argument", "CUDA IPC"),
        (
            "Caught signal 11 (Segmentation fault: invalid permissions for mapped object at address 0x2b)",
            "segmentation",
        ),
        ("mlx5: node1: got completion with error:", "an operation of the network card failed"),
        ("DeepEP error: timeout (dispatch CPU)", "DeepEP did not end in time"),
        ("An ORTE daemon has unexpectedly failed after launch and before", "a daemon of mpirun"),
    ],
)
def test_a_message_has_its_meaning(first, line, words):
    assert words in first(f"{line}\n").findings[0].text


def test_operations_of_several_groups_are_not_compared(first):
    line = (
        "[Rank {}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={}, OpType=ALLREDUCE) ran for 9 ms\n"
    )
    several = first(line.format(3, 33) + line.format(0, 257) + line.format(0, 1032))
    assert not [one for one in several.findings if one.cause == "waiting_ranks"]
    assert first(line.format(3, 33) + line.format(0, 257)).findings[0].cause == "waiting_ranks"


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("my training with torch.distributed is slow", "NCCL_DEBUG=INFO"),
        ("mpirun starts no process here", "the first error of all processes"),
        ("our RoCE network is slow", "'ibstat'"),
        ("the second GPU is on a slot with x4", "'sudo lspci -vv'"),
    ],
)
def test_a_text_without_output_is_asked_for_what_shows_a_cause(first, text, step):
    with pytest.raises(InputError, match="written by no known program") as error:
        first(f"{text}\n")
    assert step in str(error.value)


def test_an_unknown_text_is_asked_for_nothing(first):
    with pytest.raises(InputError) as error:
        first("the cat sat on the mat\n")
    assert "; add" not in str(error.value)


GPUS = "GPU 0: NVIDIA GeForce RTX 5090 (UUID: GPU-1)\n"


@pytest.mark.parametrize(
    ("title", "is_told"),
    [
        ("5090 GPU (via OCuLink PCIe4x4) Falls Off Bus with Xid 79 Under Load", True),
        ("[BUG] DeepEP internode timeout on two nodes", True),
        ("Training hangs at the first step on two GPUs", True),
        ("All tests finished and 0 failed here", False),
        ("Please add support for this card to the driver", False),
        ("error_count=0 timeout=30 value", False),
    ],
)
def test_a_failure_that_an_author_states_is_no_clean_report(first, title, is_told):
    verdict = str(first(f"# {title}\n\n{GPUS}").verdict)
    assert ("the author states a failure" in verdict) == is_told
    assert ("no fault is stated" in verdict) != is_told


def test_few_errors_of_a_link_are_counted_in_the_whole_log(first):
    error = "[   12.3] pcieport 0000:00:03.1: PCIe Bus Error: severity=Correctable, type=Data Link Layer, (Transmitter ID)\n"
    kind = "[   12.3] pcieport 0000:00:03.1:    [12] Timeout\n"
    found = first((error + kind) * 3)
    assert "3 corrected PCIe errors (Timeout)" in " ".join(map(str, found.statements))
    assert "count them in the whole kernel log" in str(found.verdict)


def test_a_log_without_hops_is_asked_for_its_output(first):
    assert "no hop between GPUs" in str(
        first("a:1:1 [0] NCCL INFO NCCL_IB_HCA set by environment to mlx5_0.\n").verdict
    )


def test_a_message_about_a_missing_file_is_no_missing_program(first):
    with pytest.raises(InputError) as error:
        first("ImportError: libcuda.so.1: cannot open shared object file: No such file or directory\n")
    assert "has no output of" not in str(error.value)
    with pytest.raises(InputError, match="no output of ibstat"):
        first("bash: line 1: ibstat: command not found\n")


def test_a_list_of_lspci_asks_for_links(first):
    with pytest.raises(InputError, match="states no links: add 'sudo lspci -vv'"):
        first("01:00.0 VGA compatible controller: NVIDIA Corporation GA102\n\tKernel driver in use: nvidia\n")
