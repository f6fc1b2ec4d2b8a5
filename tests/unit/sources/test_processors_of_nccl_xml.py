"""Processors that NCCL's topology XML states."""

import pytest

import fabricast as fc
from fabricast.core.facts import Quantity
from fabricast.sources.reading import facts_of_text

CPU = '<cpu numaid="{node}" affinity="ffff" arch="x86_64" vendor="{vendor}" familyid="{family}" modelid="{model}">{pci}</cpu>'
GPU = (
    '<pci busid="0000:{bus}:00.0" class="0x030200" vendor="0x10de" device="0x20b5" link_speed="16.0 GT/s PCIe" '
    'link_width="16"><gpu dev="{dev}" sm="80"/></pci>'
)


def system(vendor, family, model, *, second=None):
    cpus = [
        CPU.format(node=node, vendor=vendor, family=family, model=number, pci=GPU.format(bus=f"{node + 1}7", dev=node))
        for node, number in enumerate([model, model if second is None else second])
    ]
    return f'<system version="1">\n{"".join(cpus)}\n</system>\n'


@pytest.mark.parametrize(
    ("vendor", "family", "model", "cpu"),
    [
        ("GenuineIntel", 6, 79, "intel_broadwell"),
        ("GenuineIntel", 6, 85, "intel_skylake"),
        ("GenuineIntel", 6, 143, "intel_sapphire_rapids"),
        ("GenuineIntel", 6, 207, "intel_emerald_rapids"),
        ("AuthenticAMD", 175, 17, "amd"),
    ],
)
def test_vendor_and_model_state_the_family(vendor, family, model, cpu):
    assert facts_of_text(system(vendor, family, model)).values(Quantity.PROCESSOR) == [cpu]


@pytest.mark.parametrize(("vendor", "model", "second"), [("GenuineIntel", 85, 143), ("Unknown", 1, 1)])
def test_different_or_unknown_processors_state_none(vendor, model, second):
    assert facts_of_text(system(vendor, 6, model, second=second)).values(Quantity.PROCESSOR) == []


def test_forecast_uses_the_stated_processor(tmp_path):
    path = tmp_path / "topo.xml"
    path.write_text(system("GenuineIntel", 6, 85))
    found = fc.collective(path, sizes=["64 MiB"], gpu="A100-PCIE-40GB")
    assert not any("processor is unknown" in str(one) for one in found.warnings)
