"""Programs and GPUs that do not start, and what is no fault of a GPU."""

import pytest

from tests.unit.diagnosis.pasted import words

BURN = "100.0%  proc'd: {} (0 Gflop/s)   errors: {}   temps: 41 C\n"


@pytest.mark.parametrize(
    ("reason", "remedy"),
    [
        ("Couldn't init a GPU test: Error: CUDA_ERROR_UNKNOWN\n" + BURN.format(0, "0"), "check driver and GPUs"),
        (
            "Couldn't init a GPU test: Error in load module: a PTX JIT compilation failed\n"
            + BURN.format(-1, "7  (DIED!)"),
            "build gpu_burn",
        ),
        ("./gpu_burn\nGPU 0: TITAN RTX (UUID: GPU-5ca89547)\nNo CUDA devices\n", "check driver and GPUs"),
    ],
)
def test_a_test_that_does_not_start_says_nothing_about_the_gpu(answer, reason, remedy):
    found = answer(reason)
    assert "gpu_burn did not start its test" in str(found.verdict) and remedy in found.findings[0].remedy
    assert "stopped" not in words(found) and "no errors of" not in words(found)


def test_option_i_of_gpu_burn_names_the_device(answer):
    text = "Initialized device 2 with 24114 MB of memory\n10.0%  proc'd: 18 (6311 Gflop/s)   errors: 5  (DIED!)  temps: 36 C\n"
    assert "GPU 2: stopped (gpu_burn)" in words(answer(text))


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            [
                "amdgpu 0000:c7:00.0: amdgpu: Will use PSP",
                "[drm:psp_hw_start [amdgpu]] *ERROR* PSP create ring failed!",
            ],
            "0000:c7:00.0: error of its driver: PSP create ring failed",
        ),
        (
            ["pcieport 0000:00:1d.4: BAR 15: no space for [mem size 0xc00000000 64bit pref]"],
            "0000:00:1d.4: a window of 48 GiB cannot be assigned",
        ),
        (
            ["Doesn't get READY_TO_ACCESS_GPU from pf, give up", "amdgpu 0000:04:00.0: Fatal error during GPU init"],
            "virtual function (SR-IOV) does not answer",
        ),
        (
            ["NVRM: Xid (PCI:0000:01:00): 32, pid=1, name=x, Channel ID 00000010"],
            "corrupted commands arrive over PCIe (Xid 32)",
        ),
        (
            ["amdgpu 0000:83:00.0: Fatal error during GPU init", "amdgpu: probe of 0000:83:00.0 failed with error -12"],
            "0000:83:00.0: is refused by its driver (probe failed with error -12)",
        ),
    ],
)
def test_kernel_states_why_a_gpu_does_not_start(answer, lines, said):
    found = answer("".join(f"[  {number}.1] {line}\n" for number, line in enumerate(lines)))
    assert said in str(found.verdict)


def test_windows_that_are_assigned_later_are_no_fault(answer):
    text = (
        "[1.1] pcieport 0000:00:1d.4: BAR 15: no space for [mem size 0xc00000000 64bit pref]\n"
        "[1.2] pcieport 0000:00:1d.4: BAR 15: assigned [mem 0x4000000000-0x4bffffffff 64bit pref]\n"
        "[1.3] NVRM: Xid (PCI:0000:01:00): 13, pid=1, Graphics Exception\n"
    )
    assert "cannot be assigned" not in words(answer(text))


@pytest.mark.parametrize(("pairs", "is_fault"), [({"01", "23"}, False), ({"01"}, True)])
def test_gpus_of_two_processors_have_access_within_each(answer, pairs, is_fault):
    names = "".join(
        f"Device: {gpu}, NVIDIA A40, pciBusID: {gpu + 2}, pciDeviceID: 0, pciDomainID:0\n" for gpu in range(4)
    )
    lines = [
        f"Device={a} {'CAN' if ''.join(sorted(f'{a}{b}')) in pairs else 'CANNOT'} Access Peer Device={b}\n"
        for a in range(4)
        for b in range(4)
        if a != b
    ]
    rows = "".join(
        f"     {row} " + " ".join("900.0" if row == column else "10.5" for column in range(4)) + "\n"
        for row in range(4)
    )
    text = f"[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]\n{names}{''.join(lines)}"
    text += f"Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)\n   D\\D     0      1      2      3\n{rows}"
    assert any(one.cause == "no_peer_access" for one in answer(text).findings) == is_fault
