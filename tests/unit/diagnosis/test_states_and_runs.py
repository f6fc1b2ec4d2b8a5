"""States of devices and ends of runs that new users tried, each with a healthy counterpart."""

from pathlib import Path

import pytest

import fabricast as fc
from fabricast.core.facts import Quantity
from fabricast.sources.reading import facts_of_text
from tests.unit.diagnosis.pasted import nccl_tests as pasted_tests

LIST = "GPU {0}: NVIDIA H100 80GB HBM3 (UUID: GPU-{0})\n"


def causes_of(found):
    return [finding.cause for finding in found.findings]


def states_of(text):
    return [(fact.subject[0], fact.value) for fact in facts_of_text(text).of(Quantity.GPU_STATE)]


def test_counters_of_nvlinks_are_states_only_if_they_are_many():
    errors = LIST.format(0) + "\t Link 4: Replay Errors: {}\n\t Link 4: CRC Errors: 7\n"
    assert states_of(errors.format(4211)) == [
        ("0", "its NVLinks have errors since their start: NVLink 4 4,211 Replay errors")
    ]
    assert not states_of(errors.format(3))
    assert not facts_of_text(errors.format(3)).values(Quantity.NVLINKS)


def test_rows_that_the_driver_cannot_read_are_a_state():
    rows = (
        "| NVIDIA-SMI 550.90.07    Driver Version: 550.90.07 |\n"
        "|   0  NVIDIA GeForce RTX 4090        On  |   00000000:01:00.0 Off |                  Off |\n"
        "| 45%   62C    P2            300W /  450W |   21876MiB /  24564MiB |     98%      Default |\n"
        "|   1  NVIDIA GeForce RTX 4090        On  |   00000000:41:00.0 Off |                  Off |\n"
        "|{}  ERR!  ERR!           N/A /  N/A  |     40MiB /  24564MiB |    ERR!      Default |\n"
    )
    assert states_of(rows.format("ERR!")) == [("1", "its driver cannot read its state (ERR!)")]
    assert not states_of(rows.replace("ERR!", "45% ").format("45% "))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("No devices were found\n", "the driver finds no GPU"),
        ("Failed to initialize NVML: Driver/library version mismatch\n", "have different versions"),
        (
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure it is running.\n",
            "the driver is not loaded",
        ),
    ],
)
def test_a_driver_that_cannot_be_used_is_a_cause(first, text, words):
    assert words in first(text).findings[0].text


def test_links_that_go_down_again_and_again_are_a_state_and_a_restart_is_none(first):
    line = "[{}.1] mlx5_core 0000:5d:00.0 ens93np0: Link {}\n"
    flaps = "".join(line.format(100 + 2 * one, "down") + line.format(101 + 2 * one, "up") for one in range(3))
    assert "network card 0000:5d:00.0 lost its link 3 times" in first(flaps).findings[0].text
    assert not first(line.format(1, "down") + line.format(2, "up")).findings
    boots = "[    0.000000] Linux version 6.8\n".join([flaps[: len(flaps) // 3]] * 3)
    assert not first(boots).findings


def test_one_nvlink_that_dcgmi_calls_down_is_a_state_and_all_of_them_may_be_no_bridge(first):
    line = "| GPU {}'s NvLink link {} is currently down Check DCGM and system logs |\n"
    assert causes_of(first(line.format(5, 3))) == ["gpu_errors"]
    assert not first("".join(line.format(gpu, link) for gpu in (0, 1) for link in range(4))).findings


def test_the_reason_of_a_failed_test_of_dcgmi_is_printed(first):
    row = "| {:<25} | {:<46} |\n"
    text = row.format("PCIe", "Fail - GPU: 3") + row.format("Warning", "GPU 3's bandwidth of 24.1 GB/s did not")
    text += row.format("", "meet the required minimum of 40 GB/s")
    found = first(text + row.format("GPU Memory", "Pass - All")).findings[0]
    assert "24.1 GB/s did not meet the required minimum of 40 GB/s" in found.text
    assert "generation and width" in found.remedy


def test_gpus_of_gpu_burn_are_counted_once_and_slow_ones_are_named(first):
    text = "50.0%  proc'd: 9000 ({} Gflop/s) - 9000 (62000 Gflop/s)   errors: 0 - 0   temps: 51 C - 45 C\n"
    summary = "Tested 2 GPUs:\n\tGPU 0: OK\n\tGPU 1: OK\n"
    assert "no errors of 2 GPUs" in facts_of_text(text.format(61000) + summary).values(Quantity.NOTE)[0]
    assert "GPU 0: computes 40,000 Gflop/s, another one 62,000" in first(text.format(40000) + summary).findings[0].text


def test_tables_have_the_operation_of_the_heading_above_them():
    texts = [
        f"# Collective test starting: {name}_perf\n{pasted_tests(name, 4, {1 << 20: 90.0, 1 << 24: 900.0})}"
        for name in ("all_reduce", "alltoall")
    ]
    values = facts_of_text("\n".join(texts)).values(Quantity.COLLECTIVE)
    assert [str(table.operation) for table in values] == ["all_reduce", "alltoall"]


def test_a_run_that_slurm_ended_is_no_agreement(first):
    text = pasted_tests("all_reduce", 8, {1 << 20: 90.0, 1 << 24: 900.0})
    head = "# nThread 1 nGpus 8 minBytes 8 maxBytes 8589934592 step: 2(factor) warmup iters: 5\n"
    rows = "\n".join(line for line in text.splitlines() if not line.startswith(("# Out of", "# Avg")))
    end = "\nslurmstepd: error: *** STEP 88123.0 ON n1 CANCELLED AT 2026-11-24T10:11:02 DUE TO TIME LIMIT ***\n"
    assert "Slurm ended the run (time limit) after 16 MiB of 8 GiB" in first(head + rows + end).findings[0].text
    cut = facts_of_text(head + rows)
    assert any("the table ends after 16 MiB of 8 GiB" in cause for cause in cut.values(Quantity.CAUSE))
    large = pasted_tests("all_reduce", 8, {1 << 28: 900.0}).splitlines()
    rows = "\n".join(line for line in large if not line.startswith(("# Out of", "# Avg")))
    assert any("the table ends after 256 MiB" in note for note in facts_of_text(head + rows).values(Quantity.NOTE))
    assert not any("the table ends" in note for note in facts_of_text(head + text).values(Quantity.NOTE))


def test_a_list_of_cards_is_a_variable_of_the_log():
    line = "n1:1:2 [0] NCCL INFO NCCL_IB_HCA set to mlx5_0\n"
    runs = facts_of_text("n1:1:2 [0] NCCL INFO NCCL version 2.21.5+cuda12.4\n" + line).values(Quantity.NCCL_RUN)
    assert runs[0].environment == {"NCCL_IB_HCA": "mlx5_0"}


def test_gpus_without_an_index_have_the_order_of_their_addresses(first):
    head = "name, pci.bus_id, pcie.link.gen.max, pcie.link.width.current, pcie.link.width.max\n"
    row = "NVIDIA GeForce RTX 4090, 00000000:{}:00.0, 4, {}, 16\n"
    found = first(head + row.format("01", 16) + row.format("41", 8))
    assert "0000:41:00.0 uses x8 of x16" in found.findings[0].text


def messages(title, unit, values, pairs=""):
    rows = "".join(f"{size} {value}\n" for size, value in values.items())
    return f"# OSU MPI {title} Test v7.2\n{pairs}# Size {unit}\n{rows}"


def latency(small_us, rate_mb_s):
    return messages("Latency", "Latency (us)", {8: small_us, 64: small_us, 1 << 22: (1 << 22) / rate_mb_s})


def test_numbers_of_pairs_that_are_not_printed_are_not_compared(first):
    one, many = (messages("Multi Latency", "Latency (us)", {8: 1.1, 1 << 20: time}) for time in (46.0, 690.0))
    found = first(one, many)
    assert not found.findings
    assert "does not print their number" in str(found.verdict)


def test_paths_within_and_between_hosts_accuse_none(first):
    found = first(latency(1.2, 24000.0), latency(0.25, 12000.0))
    assert not found.findings
    assert any("as between processes of one host" in note for note in found.notes)
    # The same path with a slower link is named.
    assert causes_of(first(latency(1.2, 24000.0), latency(1.2, 12000.0))) == ["slow_messages"]


def test_a_switch_more_is_possible_where_only_latencies_differ(first):
    found = first(latency(1.1, 24000.0), latency(1.5, 24000.0))
    assert str(found.verdict).startswith("possibly slower")
    assert "count the switches" in found.findings[0].remedy
    assert str(first(latency(1.1, 24000.0), latency(4.0, 24000.0)).verdict).startswith("slower than expected")


def ports(count):
    card = "CA 'mlx5_{}'\n\tCA type: MT4123\n\tPort 1:\n\t\tState: Active\n\t\tPhysical state: LinkUp\n\t\tRate: 200\n"
    return "".join(card.format(number) for number in range(count))


def test_bandwidths_are_compared_with_all_ports_of_a_host(first):
    one, two = (messages("Bandwidth", "Bandwidth (MB/s)", {1 << 22: rate}) for rate in (24500.0, 48900.0))
    assert "98 % of the 200 Gbit/s of a port; the host has 2 active ports" in str(first(one, ports(2)).verdict)
    assert "98 % of the 2 ports of 200 Gbit/s" in str(first(two, ports(2)).verdict)
    slow = first(messages("Bandwidth", "Bandwidth (MB/s)", {1 << 22: 1150.0}), ports(1))
    assert "5 % of the 200 Gbit/s" in str(slow.verdict)
    assert "--mca pml ucx" in slow.findings[0].remedy


def test_messages_over_tcp_beside_active_ports_are_a_cause(first):
    startup = "[0] MPI startup(): libfabric provider: {}\n"
    assert causes_of(first(startup.format("tcp"), ports(1))) == ["messages_over_tcp"]
    assert not first(startup.format("mlx"), ports(1)).findings
    alone = first(startup.format("tcp"))
    assert str(alone.verdict).startswith("possibly slower") and not alone.has_causes
    late = first(latency(11.8, 1150.0), ports(1))
    assert causes_of(late) == ["messages_over_tcp"]
    assert str(late.verdict).startswith("possibly slower")
    assert not first(latency(1.2, 24000.0), ports(1)).findings


def test_transports_of_ucx_between_hosts_are_read(first):
    line = "[1701292112.829711] [n1:162239:0]  ucp_worker.c:1855 UCX  INFO  0x100b240 inter-node cfg#3 tag({})\n"
    over_tcp, over_card = line.format("tcp/eth0"), line.format("rc_mlx5/mlx5_0:1 rc_mlx5/mlx5_0:1")
    assert causes_of(first(over_tcp, ports(1))) == ["messages_over_tcp"]
    assert "UCX_NET_DEVICES" in first(over_tcp, ports(1)).findings[0].remedy
    assert not first(over_tcp).has_causes
    assert not first(over_card, ports(1)).findings
    assert any(
        "UCX sends between hosts by rc_mlx5/mlx5_0:1" in one for one in facts_of_text(over_card).values(Quantity.NOTE)
    )


def test_a_host_that_is_lost_is_named(first):
    text = (
        f"{'-' * 74}\nORTE has lost communication with a remote daemon.\n\n"
        f"  Remote daemon: [[26119,0],3] on node gpu-004\n{'-' * 74}\n"
    )
    found = first(text)
    assert str(found.verdict).startswith("the run failed: a host of the job is lost")
    assert "on node gpu-004" in found.findings[0].text
    assert causes_of(first("MPICH Slingshot Network Summary: 14 network timeouts\n")) == ["timeouts"]
    assert not facts_of_text("MPICH Slingshot Network Summary: 0 network timeouts\n").values(Quantity.CAUSE)


MANAGER = "[Nov 24 2026 08:11:09] [{}] [tid 4140] {}\n"


def test_the_log_of_the_fabric_manager_states_faults(first):
    switch = MANAGER.format("ERROR", "detected NVSwitch fatal error 20034 on fid 0 on pci 00000000:88:00.0 port 30")
    assert states_of(switch) == [("0000:88:00.0", "fatal error of an NVSwitch or its NVLinks (SXid 20034)")]
    assert "reset all GPUs together" in first(switch).findings[0].remedy
    versions = "fabric manager NVIDIA GPU driver interface version 550.54.15 don't match with driver version 550.90.07."
    found = first(MANAGER.format("ERROR", versions))
    assert "the fabric manager 550.54.15 does not fit the driver 550.90.07," in found.findings[0].text
    assert not first(MANAGER.format("INFO", "Detected 4 NVSwitches")).findings


def test_ports_of_mlxlink_and_perfquery(first):
    link = "Physical state : LinkUp\nState : {}\nSpeed : IB-{}\nEnabled Link Speed : 0x000000c1 (NDR,HDR,SDR)\n"
    assert first(link.format("Active", "HDR")).findings[0].text == "a port runs at HDR, NDR is enabled"
    assert not first(link.format("Active", "NDR")).findings
    assert first(link.format("Polling", "N/A")).findings[0].text == "a port is Polling (LinkUp)"
    counters = (
        "# Port counters: Lid 34 port 1\nSymbolErrorCounter:..............{}\nPortXmitWait:....................42119\n"
    )
    assert "SymbolErrorCounter 65,535" in first(counters.format(65535)).findings[0].text
    assert not first(counters.format(2)).findings


def test_lines_of_vllm_are_notes():
    line = "WARNING custom_all_reduce.py:134] Custom allreduce is disabled because {}. To silence this warning, x\n"
    (known,) = facts_of_text(line.format("it's not supported on more than two PCIe-only GPUs")).values(Quantity.NOTE)
    assert "as usual for more than two GPUs without NVLink" in known
    (other,) = facts_of_text(line.format("of an unsupported world size: 6")).values(Quantity.NOTE)
    assert other.endswith("is disabled because of an unsupported world size: 6")


def test_a_narrow_link_of_the_kernel_log_is_a_fault_of_a_gpu_only(first):
    narrow = (
        "[    2.1] pci 0000:41:00.0: 63.008 Gb/s available PCIe bandwidth, limited by 16.0 GT/s PCIe x4 link at "
        "0000:40:01.1 (capable of 252.048 Gb/s with 16.0 GT/s PCIe x16 link)\n"
    )
    gpu = "[    9.1] nvidia 0000:41:00.0: vgaarb: VGA decodes changed\n"
    found = "[    2.0] pci 0000:41:00.0: [10de:2684] type 00 class 0x030000\n"
    assert not first(narrow).findings
    assert not first(found.replace("10de:2684", "1022:7901").replace("0x03", "0x01") + narrow).findings
    assert "0000:41:00.0: has 63.008" in first(found + narrow).findings[0].text
    assert "0000:41:00.0: has 63.008 of 252.048 Gbit/s of PCIe" in first(narrow + gpu).findings[0].text


def test_the_same_narrow_link_of_several_gpus_is_one_cause(first):
    head = "index, name, pci.bus_id, pcie.link.gen.max, pcie.link.width.current, pcie.link.width.max\n"
    rows = "".join(f"{gpu}, NVIDIA GeForce RTX 4090, 00000000:{gpu + 1:02X}:00.0, 4, 8, 16\n" for gpu in range(4))
    found = first(head + rows)
    assert len(found.findings) == 1
    assert "0000:01:00.0" in found.findings[0].text and "0000:04:00.0" in found.findings[0].text
    assert found.findings[0].remedy.startswith("several at once: check bifurcation")


def test_a_slow_pair_and_late_copies_of_a_matrix(first):
    title = "Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)\n   D\\D     0      1      2      3\n"
    rates = [
        [900.0 if one == other else 6.0 if {one, other} == {2, 3} else 25.0 for other in range(4)] for one in range(4)
    ]
    rows = "".join(f"     {gpu} " + " ".join(f"{rate:6.2f}" for rate in row) + "\n" for gpu, row in enumerate(rates))
    assert causes_of(first(title + rows)) == ["slow_pair"]
    late = "P2P=Enabled Latency (P2P Writes) Matrix (us)\n   GPU     0      1\n     0   1.38 {0}\n     1 {0}   1.38\n"
    healthy = title + rows.replace("  6.00", " 25.00")
    assert causes_of(first(healthy + late.format("49204.11"))) == ["late_copies"]
    assert not first(healthy + late.format("1.61")).findings


def test_cards_of_an_option_are_those_of_the_cluster(tmp_path):
    log = Path(__file__).parents[2] / "data" / "readme" / "cluster.log"
    assumed, stated = fc.diagnose(log), fc.diagnose(log, nic="8x400")
    assert "8 x 400 Gbit/s assumed" in str(assumed.verdict)
    assert "slower_than_forecast" in causes_of(stated)
    assert not any("assumed" in one.text for one in stated.findings)
    assert stated.sources == assumed.sources
    with pytest.raises(fc.InputError, match="nic is '8x', expected cards"):
        fc.diagnose(log, nic="8x")
