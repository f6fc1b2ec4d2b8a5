"""GPUs and links that are known by the name of a product."""

import pytest

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
