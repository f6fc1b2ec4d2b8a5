"""Counters of the kernel, transports of UCX, modules and options of the kernel."""

import pytest

import fabricast as fc

SYSFS = "/sys/class/infiniband/mlx5_0/ports/1/hw_counters/{}:{}\n"
LOG = (
    "a:1:1 [0] NCCL INFO NCCL version 2.18.3+cuda12.2\n"
    "a:1:1 [0] NCCL INFO Using network IB\n"
    "a:1:1 [0] NCCL INFO Channel 00/0 : 0[1000] -> 1[1000] [send] via NET/IB/0\n"
    "b:1:1 [0] NCCL INFO Channel 00/0 : 1[1000] -> 0[1000] [send] via NET/IB/0\n"
    "a:1:1 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1000 commId 0x1 - Init COMPLETE\n"
    "b:1:1 [0] NCCL INFO comm 0x1 rank 1 nranks 2 cudaDev 0 nvmlDev 0 busId 1000 commId 0x1 - Init COMPLETE\n"
)
MODULES = "Module                  Size  Used by\nmlx5_ib 462848 0\nnvidia 56717312 2 nvidia_uvm\n"


def told(diagnosis):
    return " ".join(map(str, diagnosis.statements))


@pytest.mark.parametrize(
    "text",
    [
        SYSFS.format("out_of_sequence", 98655),
        "link mlx5_0/1 rx_write_requests 0 rx_read_requests 0 packet_seq_err 5 out_of_sequence 98655 ",
    ],
)
def test_lost_packets_are_a_state_of_the_port(first, text):
    found = first(text).findings[0]
    assert found.text.startswith("mlx5_0 port 1 lost packets")
    assert "since its counters were cleared: out_of_sequence 98,655" in found.text
    assert found.remedy.startswith("on RoCE")


def test_two_prints_of_counters_are_compared(first):
    before = SYSFS.format("out_of_sequence", 78655) + SYSFS.format("np_cnp_sent", 1333)
    after = SYSFS.format("out_of_sequence", 98655) + SYSFS.format("np_cnp_sent", 133333)
    found = first(before + after)
    assert "between the prints: out_of_sequence 20,000" in found.findings[0].text
    assert "np_cnp_sent 132,000" in told(found)
    # What was counted long ago is no fault of this run.
    assert not first(before + SYSFS.format("out_of_sequence", 78655) + SYSFS.format("np_cnp_sent", 1334)).findings
    # Counters that were cleared begin again.
    assert "20,412" in first(before + SYSFS.format("out_of_sequence", 20412)).findings[0].text


def test_few_errors_are_a_note(first):
    found = first(SYSFS.format("local_ack_timeout_err", 7))
    assert not found.findings
    assert "local_ack_timeout_err 7" in told(found)


def test_ucx_without_cards_says_so(first):
    tcp = "#      Transport: self\n#         Device: memory0\n#      Transport: tcp\n#         Device: eth0\n"
    found = first(tcp)
    assert found.findings[0].cause == "no_card_transport"
    assert "over TCP only (eth0)" in found.findings[0].text
    card = (
        "#      Transport: rc_mlx5\n#         Device: mlx5_0:1\n#      Transport: cuda_copy\n#         Device: cuda\n"
    )
    assert not first(tcp + card).findings
    assert "UCX sends between hosts by rc_mlx5 over mlx5_0:1" in told(first(tcp + card))
    assert "memory of GPUs" not in told(first(tcp + card))
    # The output of grep proves nothing about other transports.
    assert not first("#      Transport: tcp\n#         Device: eth0\n").findings


def test_a_loaded_module_leaves_the_advice_to_load_it_out(first, tmp_path):
    assert "load nvidia-peermem" in first(LOG).findings[0].remedy
    (tmp_path / "log").write_text(LOG)
    (tmp_path / "modules").write_text(MODULES + "nvidia_peermem 16384 0\n")
    found = fc.diagnose([tmp_path / "log", tmp_path / "modules"])
    assert found.findings[0].cause == "no_gpudirect"
    assert "load nvidia-peermem" not in found.findings[0].remedy
    assert found.findings[0].remedy.startswith("nvidia-peermem is loaded: update NCCL")


def test_modules_are_missing_only_in_a_whole_list(first):
    assert "nvidia_peermem is not loaded" in told(first(MODULES))
    assert "not loaded" not in told(first(MODULES.partition("\n")[2]))


@pytest.mark.parametrize("start", ["[    0.000000] Command line: ", ""])
def test_options_of_the_kernel_are_stated(first, start):
    line = f"{start}BOOT_IMAGE=/boot/vmlinuz-6.8 root=UUID=5c ro amd_iommu=on iommu=pt pcie_acs_override=downstream\n"
    found = told(first(line))
    assert "iommu=pt: the IOMMU leaves the addresses" in found
    assert "amd_iommu=on" not in found
    assert "switches no access control (ACS) off" in found
    assert "the IOMMU translates" in told(first(line.replace(" iommu=pt", "")))
    assert "iommu=pt: the IOMMU leaves" in told(first('GRUB_CMDLINE_LINUX_DEFAULT="amd_iommu=on iommu=pt"\n'))


DEVINFO = """hca_id:\tmlx5_0
\t\tport:\t1
\t\t\tstate:\t\t\tPORT_ACTIVE (4)
\t\t\tmax_mtu:\t\t4096 (5)
\t\t\tactive_mtu:\t\t1024 (3)
\t\t\tlink_layer:\t\tEthernet
\t\t\tGID[  0]:\t\tfe80:0000:0000:0000:0e42:a1ff:fe57:1f5a, RoCE v1
\t\t\tGID[  1]:\t\tfe80::e42:a1ff:fe57:1f5a, RoCE v2
\t\t\tGID[  3]:\t\t::ffff:10.10.10.1, RoCE v2
"""


def test_addresses_and_packets_of_ibv_devinfo_are_read(first):
    found = told(first(DEVINFO))
    assert "RoCE v2 addresses that other hosts can reach: mlx5_0 port 1: 3" in found
    assert "mlx5_0 port 1 sends packets of 1024 bytes, and could send 4096" in found
    assert "RoCE packets" not in told(first(DEVINFO.replace("Ethernet", "InfiniBand").replace("1024 (3)", "2048 (4)")))


def test_an_index_of_a_log_is_compared_with_ibv_devinfo(tmp_path):
    log = LOG + "a:1:1 [0] NCCL INFO NCCL_IB_GID_INDEX set by environment to 1.\n"
    (tmp_path / "log").write_text(log)
    (tmp_path / "ports").write_text(DEVINFO)
    found = fc.diagnose([tmp_path / "log", tmp_path / "ports"])
    assert any("NCCL_IB_GID_INDEX=1" in one.text and "link-local" in one.text for one in found.findings)
