"""Lines of the kernel about GPUs of AMD, atomic operations, windows of bridges and options of the IOMMU."""

import pytest

from fabricast.core.errors import InputError

AT = "[   12.345678] "


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("amdgpu 0000:04:00.0: device lost from bus!", "0000:04:00.0: has fallen off the bus"),
        ("amdgpu 0000:0d:00.0: amdgpu: GPU reset(2) succeeded!", "was reset by its driver 2 times"),
        ("amdgpu 0000:03:00.0: amdgpu: PCIE atomic ops is not supported", "0000:03:00.0: gets no atomic operations"),
        (
            "kfd kfd: amdgpu: skipped device 1002:67df, PCI rejects atomics",
            "a GPU (1002:67df): gets no atomic operations",
        ),
        (
            "BUG: kernel NULL pointer dereference\n[    8.0] RIP: 0010:amdgpu_gmc_set_pte_pde+0x23/0x40 [amdgpu]",
            "the kernel crashed in a driver",
        ),
        ("AMD-Vi: Unknown option - 'pt'", "the kernel ignores an option of the IOMMU"),
        ("nvidia-fs:nvfs_pin_gpu_pages:1292 Error ret -22 invoking nvidia_p2p_get_pages", "GPUDirect RDMA or Storage"),
        (
            "pci 0000:00:01.0: bridge window [mem size 0xc00000000 64bit pref]: can't assign; no space",
            "0000:00:01.0: a window of 48 GiB cannot be assigned",
        ),
    ],
)
def test_a_line_of_the_kernel_is_a_fault(first, line, words):
    assert words in first(f"{AT}{line}\n").findings[0].text


def test_a_window_that_is_assigned_later_is_no_fault(first):
    line = "pci 0000:00:01.0: bridge window [mem size 0xc00000000 64bit pref]: can't assign; no space\n"
    placed = "pci 0000:00:01.0: bridge window [mem 0x4000000000-0x4bffffffff 64bit pref]: assigned\n"
    assert not first(AT + line + AT + placed).findings
    assert not first(AT + line.replace("0xc00000000", "0x100000")).findings


def test_a_refused_atomic_operation_is_no_fault_of_a_slot(first):
    port = "pcieport 0000:00:1c.4:"
    lines = (
        f"{AT}{port} PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, id=00e4(Receiver ID)\n"
        f"{AT}{port}    [18] Malformed TLP          (First)\n"
    )
    header = f"{AT}{port}   TLP Header: 6c000002 06000000 0000000f b76e6008\n"
    found = first(lines + header)
    assert "0000:00:1c.4: refuses atomic operations" in found.findings[0].text
    assert "chipset" in found.findings[0].remedy
    assert "uncorrected errors" in first(lines + header.replace("6c00", "6000")).findings[0].text


def test_a_line_for_several_corrected_errors_counts_as_several(first):
    port = "pcieport 0000:00:03.1:"
    error = f"{AT}{port} PCIe Bus Error: severity=Correctable, type=Data Link Layer, (Transmitter ID)\n"
    several = f"{AT}{port} AER: Multiple Correctable error message received from 0000:00:00.0\n"
    assert "several corrected errors" in first(several + error).findings[0].text
    assert not first(error).findings


@pytest.mark.parametrize(
    "prose",
    [
        "I enabled large BAR support in the BIOS, and it works.\n",
        "We read that the Default domain type matters.\n",
        "The slot has a BAR of 256 MiB.\n",
    ],
)
def test_prose_is_no_kernel_log(first, prose):
    with pytest.raises(InputError, match="written by no known program"):
        first(prose)


def test_one_lane_of_sixteen_is_a_fault_of_any_device(first):
    line = "pci 0000:01:00.0: {} Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe {} link at 0000:00:1c.0 (capable of "
    line += "126.016 Gb/s with 8.0 GT/s PCIe x16 link)"
    assert "7.876 of 126.016" in first(f"{AT}{line.format('7.876', 'x1')}\n").findings[0].text
    # The link of a chipset has four lanes.
    assert not first(f"{AT}{line.format('31.504', 'x4')}\n").findings


def test_page_faults_are_no_clean_report(first):
    fault = "amdgpu 0000:c3:00.0: amdgpu: [gfxhub] no-retry page fault (src_id:0 ring:24 vmid:8 pasid:32770)"
    assert "page faults" in str(first(f"{AT}{fault}\n").verdict)
