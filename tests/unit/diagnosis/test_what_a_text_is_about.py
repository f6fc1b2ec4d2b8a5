"""Settings, errors and states count for the run, program and device that a text states them of."""

from __future__ import annotations

import pytest

import fabricast as fc
from tests.unit.diagnosis.pasted import nccl_tests, words

_LAUNCH = "NCCL_DEBUG=INFO torchrun --nproc-per-node 4 train.py\n"
_SEGMENT = (
    "[1] misc/shmutils.cc:103 NCCL WARN Cuda failure 'invalid argument'\n"
    "[1] misc/shmutils.cc:114 NCCL WARN Error while creating shared memory segment /dev/shm/nccl-x (size 9637888)\n"
)
_NO_CARD = """\
n1:1:9 [0] NCCL INFO NET/IB : No device found.
n1:1:9 [0] NCCL INFO NET/IB : Using [RO]; OOB eth0:192.168.69.159<0>
n1:1:9 [0] NCCL INFO NET/Socket : Using [0]eth0:192.168.69.159<0>
"""
_CORRECTED = "[1.0] pcieport 10003:00:00.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer, id=0000\n"
_QUERY = "nvidia-smi --query-gpu=index,gpu_recovery_action --format=csv,noheader\n0, None\n1, Reset   <= unusable\n"


@pytest.mark.parametrize(
    "sentence",
    [
        " * It happens with NCCL_P2P_DISABLE=1, NCCL_P2P_LEVEL=LOC (SHM transport), and with two GPUs.\n",
        " * NCCL_P2P_DISABLE=1, NCCL_P2P_LEVEL=LOC (SHM transport), and\n",
        "`NCCL_IB_HCA=rocep1s0f0` is required to saturate the link\n",
        "`NCCL_SOCKET_IFNAME=enP7s7`, which only selects the interface\n",
    ],
)
def test_a_setting_in_a_sentence_is_not_that_of_the_run(answer, sentence):
    found = words(answer(f"{_LAUNCH}{_SEGMENT}{sentence}"))
    assert "NCCL_P2P" not in found and "NCCL_IB_HCA=" not in found and "NCCL_SOCKET_IFNAME=" not in found


@pytest.mark.parametrize(
    "command", ["NCCL_SHM_DISABLE=1 python train.py\n", "NCCL_SHM_DISABLE=1 uv run python main.py\n"]
)
def test_a_setting_of_a_command_is_that_of_the_run(answer, command):
    assert "NCCL_SHM_DISABLE=1" in words(answer(f"{command}{_SEGMENT}"))


def test_a_setting_of_one_of_two_commands_is_unknown(answer):
    found = answer(f"{_LAUNCH}It works so:\n{_LAUNCH.replace('INFO ', 'INFO NCCL_SHM_DISABLE=1 ')}\n{_SEGMENT}")
    assert "is set already" not in words(found) and not any("NCCL_SHM" in one for one in found.statements)
    # The segment cannot be created since CUDA refuses it.
    assert "CUDA cannot register" in found.verdict.text


def test_a_text_without_lines_of_nccl_is_no_log_of_it(answer):
    settings = answer("export NCCL_IB_HCA=mlx5_0\n")
    assert "has settings of NCCL, and none of its messages" in settings.verdict.text
    peers = answer("CUDA error 217 at ggml-cuda.cu:6292: peer access is not supported between these two devices\n")
    assert not any("NCCL log" in str(source) for source in (*settings.sources, *peers.sources))


def test_an_adapter_for_relaxed_ordering_is_no_card(answer):
    assert "network Socket (TCP)" in words(answer(_NO_CARD))


def test_sockets_of_a_plugin_have_no_gpudirect(answer):
    found = answer("n1:1:2 [0] NCCL INFO NET/FastSocket : GPU Direct RDMA Disabled for HCA 0 'eth0'\n")
    assert not found.findings


def test_messages_of_a_watchdog_have_their_own_meaning(answer):
    stuck = answer(
        "[PG ID 2 PG GUID 9 Rank 2] ProcessGroupNCCL's watchdog got stuck for 480 seconds without progress\n"
    )
    assert "did not run for minutes" in stuck.verdict.text
    ended = answer(
        "[E ProcessGroupNCCL.cpp:681] [Rank 5] Some NCCL operations have failed or timed out. Due to the asynchronous\n"
        "Last error:\nsocketProgressOpt: Call to recv from 10.119.24.53<49901> failed : Broken pipe\n"
    )
    assert "another rank ended first" in ended.verdict.text


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        (_CORRECTED * 9, "10003:00:00.0: 9 corrected errors"),
        (
            "kern  :err   : [Thu Aug 13] nvidia-nvswitch1: SXid (PCI:0000:84:00.0): 12028, Data {0x000001c0}\n",
            "SXid 12028",
        ),
        ("[1.0] amdgpu 0000:0d:00.0: amdgpu: SMU: I'm not done with your previous command: X\n", "SMU: I'm not done"),
        ("[1.0] nvidia-modeset: ERROR: GPU:0: Error while waiting for GPU progress: 0x0\n", "does not answer"),
        ("[1.0] misc dxg: dxgk: dxgkio_query_adapter_info: Ioctl failed: -22\n", "whose GPUs work"),
        (
            "[1.0] nvidia-peermem get_pages:127 ERROR detected invalid context, skipping further processing\n",
            "harmless",
        ),
        (
            "[1.0] task:python3.11 state:D stack:0\n[1.0]  uvm_ioctl+0x1 [nvidia_uvm]\n",
            "state D) within the driver nvidia_uvm",
        ),
        (
            "h kernel: gdrdrv:__gdrdrv_pin_buffer:nvidia_p2p_get_pages(va=7ff p2p_token=0 va_space=0) failed [ret = -22]\n",
            "refuses",
        ),
    ],
)
def test_lines_of_the_kernel_have_their_meaning(answer, text, meaning):
    found = words(answer(text))
    assert meaning in found
    assert " 0003:" not in found


def test_a_part_of_a_query_states_what_it_has(answer):
    assert "Remapped Rows: Pending" in words(
        answer("    Remapped Rows\n        Correctable Error : 0\n        Pending : Yes\n")
    )
    healthy = "    Clocks Throttle Reasons\n        Idle : Active\n        HW Slowdown : Not Active\n"
    assert "states no fault" in words(answer(healthy))
    assert "HW Slowdown is active" in words(answer(healthy.replace("Not Active", "Active")))
    assert "GPU 1: its driver asks for the recovery action 'Reset'" in words(answer(_QUERY))
    links = "GPU 0: NVIDIA GB300\n\t Link 0: Replay Errors: {}\n\t Link 0: CRC Errors: 0\n"
    assert "no NVLink has 100 errors" in words(answer(links.format(0)))
    assert "NVLinks have errors" in words(answer(links.format(70000)))


def test_a_table_below_a_cut_list_of_ranks_is_read(answer):
    table = nccl_tests("all_reduce", 72, {1 << 30: 3000.0, 1 << 31: 5500.0}, "NVIDIA GB200")
    lines = [line for line in table.splitlines() if "Rank" not in line or "Rank 71 " in line]
    found = answer("\n".join(line for line in lines if "Collective test" not in line))
    assert "all_reduce_perf, unknown number of ranks" in " ".join(map(str, found.sources))


def test_a_rate_that_a_command_limits_is_compared_with_nothing(answer):
    rows = "[ ID] Interval Transfer Bitrate Retr\n[  5]   0.00-10.00  sec  12.5 MBytes  10.5 Mbits/sec    0   sender\n"
    assert "permits no more (-b)" in words(answer(f"$ iperf3 -c 10.0.0.1 -b 10m -t 10\n{rows}"))
    lossy = rows.replace("    0   sender", " 9421   sender")
    for command in ("$ iperf3 -c 10.0.0.1 -b 100G", "$ iperf3 -c 10.0.0.1 -b 10m\n$ iperf3 -c 10.0.0.1"):
        assert "permits no more" not in words(answer(f"{command}\n{lossy}"))
    assert "loses packets" in words(answer(f"$ iperf3 -c 10.0.0.1 -b 10m\n{lossy}"))


def test_a_question_is_no_failure_and_a_port_that_changes_is_noted(answer):
    link = "link mlx5_7/1 subnet_prefix fe80:0000 lid 3403 sm_lid 1 lmc 0 state {} physical_state LINK_UP\n"
    found = answer(
        f"Does that suggest a hardware failure or is it software?\n{link.format('DOWN')}{link.format('ACTIVE')}"
    )
    assert "the author states" not in words(found)
    assert "is printed as Down, then Active" in words(found)


def test_a_cure_is_one_whatever_its_author_adds(answer):
    hang = "It hangs in the first all_reduce.\n"
    cure = "It works with NCCL_P2P_DISABLE=1, but I would like to figure out why it is not working without it.\n"
    assert "ends the failure" in words(answer(hang + cure))
    assert "ends the failure" not in words(
        answer(f"{_SEGMENT}{hang}It works with NCCL_P2P_DISABLE=1, but then hangs.\n")
    )


def test_a_worker_that_waits_for_minutes_is_named(answer):
    line = "INFO [shm_broadcast.py:466] No available shared memory broadcast block found in 60 seconds.\n"
    assert answer(line * 3).findings and not answer(line).findings


def test_a_crash_follows_the_error_of_its_library(answer):
    found = answer(
        "|CCL_ERROR| atl_ofi.cpp:237 init: can't find suitable provider\n"
        "[n1:168955:0:168955] Caught signal 11 (Segmentation fault: address not mapped to object at address 0x8)\n"
    )
    assert "oneCCL finds no provider" in found.verdict.text


@pytest.mark.parametrize(
    "denial",
    [
        "I set NCCL_P2P_DISABLE=1 to work around the hang, but it made no difference.\n",
        "The docs say NCCL_P2P_DISABLE=1 resolves the issue, but nothing changed for me.\n",
        "A colleague fixed it with NCCL_P2P_DISABLE=1, but I see the same behaviour with it.\n",
    ],
)
def test_a_cure_that_its_author_denies_is_none(answer, denial):
    assert "ends the failure" not in words(answer(f"It hangs in the first all_reduce.\n{denial}{_SEGMENT}"))


def test_a_command_over_several_lines_is_one(answer):
    command = "mpirun -np 8 -x NCCL_DEBUG=INFO \\\n  -x NCCL_SHM_DISABLE=1 ./build/all_reduce_perf\n"
    assert "NCCL_SHM_DISABLE=1" in " ".join(answer(f"{command}{_SEGMENT}").statements)


def test_rows_below_another_command_have_its_columns(answer):
    other = "$ nvidia-smi --query-gpu=index,memory.used --format=csv,noheader\n0, 512 MiB\n1, 3 MiB\n"
    found = words(answer(_QUERY.replace("1, Reset   <= unusable", "1, None") + other))
    assert "recovery action '" not in found and "no recovery action of 2 GPUs" in found


def test_a_fatal_error_of_a_switch_is_kept(answer):
    line = "[1.0] nvidia-nvswitch1: SXid (PCI:0000:84:00.0): 20034, {}, Link 30 LTSSM fault up\n"
    assert "fatal error of an NVSwitch" in words(answer(line.format("Fatal") + line.format("Non-fatal")))
    assert "not fatal" in words(answer(line.format("Non-fatal")))


def test_a_worker_that_goes_on_waited_for_a_start(answer):
    line = "INFO [shm_broadcast.py:466] No available shared memory broadcast block found in 60 seconds.\n"
    assert not answer(f"{line * 3}INFO: Application startup complete.\n").findings


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("[1.0] NVRM: API mismatch: client version 570.133.07, kernel module version 570.124.06\n", "another version"),
        (
            "[1.0] vfio-pci 0000:b3:00.0: BAR 1: can't reserve [mem 0xe0000000-0xefffffff 64bit pref]\n",
            "another driver",
        ),
        ("[1.0] [drm:nv_drm_load [nvidia_drm]] *ERROR* Failed to allocate NvKmsKapiDevice\n", "not known here"),
        ("[1.0] kfd kfd: amdgpu: PITCAIRN  not supported in kfd\n", "does not support a GPU"),
        ("[1.0] xe 0000:03:00.0: [drm] *ERROR* CRITICAL: Xe has declared device 0000:03:00.0 as wedged.\n", "wedged"),
        ("Unable to determine the device handle for GPU 0000:65:00.0: Unknown Error\n", "(unknown error)"),
        ("CESta: RxErr- BadTLP+ BadDLLP+ Rollover+ Timeout+ NonFatalErr+\n", "BadTLP, BadDLLP, Rollover, Timeout"),
        ("common.cu:1129: Test HIP failure common.cu:1129 'hipErrorInvalidDevice'\n", "does not see"),
        (
            "Unable to open /dev/kfd read-write: Cannot allocate memory\n",
            "the driver for computing (kfd) of ROCm serves no GPU",
        ),
    ],
)
def test_a_log_with_failures_is_not_free_of_errors(answer, text, meaning):
    found = words(answer(text))
    assert meaning in found and "no errors of GPUs" not in found


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("[1.0] [drm] Fence fallback timer expired on ring gfx_0.0.0\n", "its interrupts do not arrive"),
        ("[1.0] gim error libgv: [0:3d:0:0] WSSM: GFX_SCH5_RLCV Timeout moving from VF0\n", "not known here"),
        ("[1.0] amdgpu 0000:03:00.0: [mmhub] VMC page fault (src_id:0 ring:157 vmid:0 pasid:0)\n", "of the driver or"),
    ],
)
def test_lines_of_drivers_of_amd_are_no_errors_of_programs(answer, text, meaning):
    found = words(answer(text))
    assert meaning in found and "no errors of GPUs" not in found and "error of a program" not in found


def test_a_warning_of_horovod_is_no_failure(answer):
    found = answer("Stalled ranks:\n0: [allreduce.grad_1]\n")
    assert "the run may go on" in found.verdict.text and "failed" not in str(found.verdict)


def test_a_network_of_words_that_are_unknown_names_the_known_ones():
    with pytest.raises(fc.InputError, match="is 'fattree', which is no file, expected fat_tree:LEVELS"):
        fc.map_ranks("halo:4x4x2", network="fattree")


def test_sizes_of_a_text_are_those_of_a_list():
    one, other = (
        fc.cluster_collective("hgx_h100", sizes=sizes).table for sizes in ("1M:4M", ["1 MiB", "2 MiB", "4 MiB"])
    )
    assert one.equals(other)


def test_a_ping_pong_need_not_reach_the_rate_of_a_port(tmp_path):
    files = {
        "bw.out": "# OSU MPI Bandwidth Test v7.4\n# Size      Bandwidth (MB/s)\n65536 24000.0\n4194304 24600.0\n",
        "lat.out": "# OSU MPI Latency Test v7.4\n# Size          Latency (us)\n65536 12.0\n4194304 346.0\n",
        "ibstat.txt": "CA 'mlx5_0'\n\tCA type: MT4123\n\tNumber of ports: 1\n\tPort 1:\n\t\tState: Active\n"
        "\t\tPhysical state: LinkUp\n\t\tRate: 200\n\t\tLink layer: InfiniBand\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    found = fc.diagnose([tmp_path / name for name in files])
    assert "98 % of the 200 Gbit/s" in str(found.verdict) and "osu_latency" not in str(found.verdict)


def test_hops_over_sockets_may_be_within_a_host_without_shared_memory(answer):
    found = answer(
        "n1:1:2 [0] NCCL INFO NCCL_SHM_DISABLE set by environment to 1.\n"
        "n1:1:2 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] [send] via NET/Socket/0\n"
    )
    assert "unset NCCL_SHM_DISABLE" in found.findings[0].remedy
