"""GPUs and links that are known by the name of a product."""

import pytest

import fabricast as fc
from tests.machines import import_machine
from tests.unit.pcie.topology.test_listings import ROCM, TREE


@pytest.mark.parametrize(("gpu", "rate"), [("MI300X", 64e9), ("MI325X", 64e9), ("MI355X", 76.8e9), ("MI250X", 50e9)])
def test_xgmi_links_have_the_published_rate_of_the_gpu(tmp_path, gpu, rate):
    (tmp_path / "rocm.txt").write_text(ROCM)
    tree = import_machine([tmp_path / "rocm.txt"], gpu=gpu)
    assert {link.bytes_per_s for link in tree.peer_links} == {rate}


@pytest.mark.parametrize(
    "gpu",
    [
        "NVIDIA Corporation GH100 [H100 SXM5 80GB]",
        "NVIDIA Corporation TU104GL [Tesla T4]",
        "NVIDIA Corporation Device 2330",
        "NVIDIA Corporation AD102 [GeForce RTX 4090]",
        "Advanced Micro Devices, Inc. [AMD/ATI] Aqua Vanjaram [Instinct MI300X]",
    ],
)
def test_gpus_of_lspci_tree_are_known_by_their_names(tmp_path, gpu):
    """The option -t prints no classes."""
    text = TREE.replace("NVIDIA Corporation GA100 3D controller", gpu).replace("\\-03.1", "+-03.1")
    text += "             \\-04.1-[03]--+-00.0  NVIDIA Corporation GH100 [H100 NVSwitch]\n"
    text += "                          \\-00.1  NVIDIA Corporation AD102 High Definition Audio Controller\n"
    (tmp_path / "tree.txt").write_text(text)
    assert len(import_machine([tmp_path / "tree.txt"], link="gen4x16").accelerator_names) == 3


@pytest.mark.parametrize(("device", "transport"), [("0x2684", "staged"), ("0x26b5", "p2p"), ("0x9999", "p2p")])
def test_the_pci_device_names_the_gpu_of_a_dump_of_nccl(tmp_path, device, transport):
    pci = '<pci busid="0000:0{n}:00.0" class="0x030000" vendor="0x10de" device="{device}" link_speed="16.0 GT/s PCIe"'
    gpus = "".join(
        f'{pci.format(n=number + 1, device=device)} link_width="16"><gpu dev="{number}" sm="89" rank="{number}"/></pci>'
        for number in range(2)
    )
    path = tmp_path / "nccl.xml"
    path.write_text(f'<system version="1"><cpu numaid="0" arch="x86_64">{gpus}</cpu></system>')
    times = fc.predict(path, [(0, 1)])
    assert times.get("transport", ["p2p"])[0] == transport
    # An option precedes the device.
    assert "transport" not in fc.predict(fc.load_machine(path, gpu="L40S"), [(0, 1)])
