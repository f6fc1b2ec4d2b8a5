"""States that a second group of new users tried: output of several hosts, GPUs without memory space, and wrong data."""

import json

import pytest
from typer.testing import CliRunner

import fabricast as fc
from fabricast.cli.main import app
from fabricast.core.facts import Quantity
from fabricast.sources.reading import facts_of_text
from fabricast.sources.text import Text

XID = "{}[  812.104512] NVRM: Xid (PCI:0000:21:00): 79, pid=1234, name=python, GPU has fallen off the bus.\n"
FABRIC_MANAGER = "[Mar 11 2025 11:51:37] [ERROR] [tid 2261] detected {}\n"
PERFTEST = (
    "                    RDMA_Write BW Test\n"
    " Dual-port       : OFF\t\tDevice         : {}\n"
    " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
    " 65536      20000            198.01             197.20             0.376\n"
)
IPERF = (
    "[  5]   0.00-5.00  sec  3.6 GBytes  6.3 Gbits/sec  {0}   1.54 MBytes\n"
    "[  5]   5.00-10.00 sec  3.7 GBytes  6.3 Gbits/sec  {0}   1.54 MBytes\n"
    "[  5]   0.00-10.00 sec  7.3 GBytes  6.3 Gbits/sec  {1}             sender\n"
    "[  5]   0.00-10.04 sec  7.3 GBytes  6.2 Gbits/sec                  receiver\n"
)


def states_of(text):
    return [fact.value for fact in facts_of_text(text).of(Quantity.GPU_STATE)]


def links(host, last):
    names = [f"{host}: GPU {gpu}: NVIDIA H100 80GB HBM3 (UUID: GPU-{gpu})\n" for gpu in range(2)]
    rows = [f"{host}: \t Link {link}: 26.562 GB/s\n" for link in range(3)]
    return "".join([names[0], *rows, names[1], *rows[:-1], f"{host}: \t Link 2: {last}\n"])


@pytest.mark.parametrize("text", [XID.format("node07: "), XID.format("node07: ") + "node08: [  1.0] Linux version 6\n"])
def test_states_name_the_host_of_pdsh(first, text):
    assert first(text).findings[0].text.startswith("node07 0000:21:00.0: has fallen off the bus")
    assert first(XID.format("")).findings[0].text.startswith("0000:21:00.0")


def test_the_report_of_each_host_of_pdsh_is_read_with_the_lines_of_the_file(first):
    one, other = links("node1", "26.562 GB/s").splitlines(), links("node2", "<inactive>").splitlines()
    alternating = "".join(f"{line}\n" for pair in zip(one, other, strict=True) for line in pair)
    assert first(alternating).findings[0].origin.endswith(":16")
    found = first(links("node1", "26.562 GB/s") + links("node2", "<inactive>"))
    assert found.findings[0].origin.endswith(":16")
    assert found.findings[0].text.startswith("node2 GPU 1: NVLink")
    assert not first(links("node1", "26.562 GB/s") + links("node2", "26.562 GB/s")).findings


def test_texts_of_many_hosts_are_no_longer_than_the_file():
    raw = "".join(f"h{number}: [  1.0] Linux version 6\n" for number in range(2000))
    assert sum(len(part.raw) for part in Text("log.txt", raw).by_host.values()) < len(raw)
    assert Text("log.txt", f"another line\n{raw}").by_host[""].raw.strip() == "another line"
    assert not Text("log.txt", raw.replace(": [", " [")).by_host


def test_fatal_errors_of_the_fabric_manager_are_states_in_any_words():
    switch = "NVSwitch fatal error 20034 on fid 0 on NVSwitch pci bus id 00000000:86:00.0 physical id 3 port 41"
    assert states_of(FABRIC_MANAGER.format(switch)) == ["fatal error of an NVSwitch or its NVLinks (SXid 20034)"]
    link = FABRIC_MANAGER.format("NVLink fatal error on GPU pci bus id 00000000:BB:00.0 link 6")
    (fact,) = facts_of_text(link).of(Quantity.GPU_STATE)
    assert fact.subject == ("0000:bb:00.0",) and fact.value.startswith("a fatal error that the fabric manager states")
    assert not states_of(link.replace("fatal", "non-fatal"))


def test_health_checks_without_failures_are_read_and_warnings_are_states():
    row = "| {:<20} | {:<40} |\n"
    head = row.format("Health Monitor Report", "") + row.format("Overall Health", "{}")
    healthy = head.format("Healthy")
    assert facts_of_text(healthy).values(Quantity.NOTE) == ["dcgmi health states no failure"]
    rows = row.format("-> 4", "Warning") + row.format("", "Detected more than 8 PCIe replays per minute")
    assert states_of(head.format("Failure") + rows) == [
        "warning of dcgmi health: Detected more than 8 PCIe replays per minute"
    ]


def test_a_gpu_without_place_for_its_memory_is_named(first):
    text = (
        "[   11.3] NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:\n"
        "               NVRM: BAR1 is 0M @ 0x0 (PCI:0000:c1:00.0)\n"
        "[   11.4] nvidia: probe of 0000:c1:00.0 failed with error -1\n"
    )
    found = first(text)
    assert len(found.findings) == 1 and "0000:c1:00.0: has no place in the address space" in found.findings[0].text
    assert "Above 4G Decoding" in found.findings[0].remedy


def test_a_table_of_a_working_gpu_shows_an_older_generation_and_throttling():
    head = "index, pcie.link.gen.current, pcie.link.gen.max, utilization.gpu [%], clocks_event_reasons.hw_slowdown\n"
    row = "0, {}, 4, {} %, {}\n"
    assert states_of(head + row.format(1, 99, "Not Active")) == ["its link runs at Gen1 of Gen4 under load"]
    assert states_of(head + row.format(4, 99, "Active")) == ["HW Slowdown is active"]
    assert not states_of(head + row.format(1, 0, "Not Active"))


def test_the_rate_of_the_card_that_a_test_names_is_used(tmp_path):
    port = (
        "CA '{0}'\n\tCA type: MT4129\n\tPort 1:\n\t\tState: Active\n\t\tPhysical state: LinkUp\n\t\tRate: {1}\n"
        "\t\tLink layer: {2}\n"
    )
    (tmp_path / "ibstat.txt").write_text(
        port.format("mlx5_3", 400, "InfiniBand") + port.format("mlx5_6", 200, "Ethernet")
    )
    for card, share in (("mlx5_3", "49 % of the 400"), ("mlx5_6", "99 % of the 200")):
        (tmp_path / "bw.txt").write_text(PERFTEST.format(card))
        assert share in str(fc.diagnose([tmp_path / "bw.txt", tmp_path / "ibstat.txt"]).verdict)


@pytest.mark.parametrize(("each", "total"), [(24105, 48211), (70000, 140000)])
def test_segments_of_a_run_are_counted_once(each, total):
    facts = facts_of_text(IPERF.format(each, total))
    assert f"{total:,} segments" in facts.values(Quantity.NOTE)[0]
    assert len(facts.values(Quantity.CAUSE)) == (total > 100000)


@pytest.mark.parametrize("title", ["# OSU MPI Latency Test v7.4\n", "# OSU MPI Allreduce Latency Test v7.4\n"])
def test_wrong_data_that_a_benchmark_states_are_the_verdict(first, title):
    text = title + "# Size  Avg Latency(us)  Validation\n1  1.05  Pass\n32768  2.69  {}\n"
    assert str(first(text.format("Fail")).verdict).startswith("wrong results: messages of 32768 B")
    assert not first(text.format("Pass")).findings


def test_the_test_hangs_after_the_title_of_direct_copies(first):
    rows = "   D\\D     0      1\n     0 910.00  20.85\n     1  20.98 913.60\n"
    access = "Device=0 CAN Access Peer Device=1\nDevice=1 CAN Access Peer Device=0\nP2P Connectivity Matrix\n"
    text = f"{access}Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)\n{rows}"
    title = "Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)\n"
    assert "ends before the first row of 'Unidirectional P2P=Enabled" in first(text + title).findings[0].text
    assert all(one.cause != "stopped" for one in first(text + title + rows).findings)


OSU = "# OSU MPI Latency Test v7.3\n# Size  Latency (us)\n1  {0}\n8  {0}\n"


def test_a_provider_over_tcp_with_late_messages_is_possibly_slow(first):
    log = "[0] MPI startup(): libfabric provider: {}\n"
    assert str(first(log.format("tcp") + OSU.format(18.4)).verdict).startswith("possibly slower")
    assert not first(log.format("mlx") + OSU.format(1.1)).findings


def test_files_that_agree_may_all_be_slow(first):
    ports = "CA 'mlx5_0'\n\tCA type: MT4129\n\tPort 1:\n\t\tState: Active\n\t\tPhysical state: LinkUp\n\t\tRate: 200\n"
    rows = OSU.format("18.4") + "65536  80.0\n"
    assert str(first(rows, rows, ports).verdict).startswith("possibly slower than expected: messages of osu_latency")
    fast = OSU.format("1.1") + "65536  4.0\n"
    assert str(first(fast, fast, ports).verdict).startswith("within the expected range")


def test_memory_that_cards_may_not_register_is_a_stated_fault(first):
    warning = (
        "WARNING: It appears that your OpenFabrics subsystem is configured to only\n"
        "allow registering part of your physical memory.  This can cause MPI jobs to\n"
        "  Registerable memory:     32768 MiB\n"
    )
    found = first(warning + OSU.format("1.1"))
    assert str(found.verdict).startswith("a fault is stated: network cards may register only 32768 MiB")


def test_message_rates_of_several_pairs_are_named_as_such(first):
    table = "# OSU MPI Multiple Bandwidth / Message Rate Test v7.3\n# [ pairs: 16 ] [ window size: 64 ]\n"
    rows = [
        table + "".join(f"{size}  {size * rate}  {rate * 1e6}\n" for size in (1, 4, 65536)) for rate in (0.06, 0.02)
    ]
    (finding,) = first(*rows).findings
    assert "osu_mbw_mr (16 pairs)" in finding.text and "switches" not in finding.remedy


@pytest.mark.parametrize("hosts", [("node1", "node2"), ("alpha", "beta"), ("10.0.0.1", "10.0.0.2")])
def test_names_of_hosts_and_lines_of_pdsh_itself(first, hosts):
    text = "".join(XID.format(f"{host}: ") for host in hosts) + "pdsh@head: node3: ssh exited with exit code 255\n"
    assert [one.text.split()[0] for one in first(text).findings] == list(hosts)


def test_other_programs_in_a_file_of_hosts_are_read(first):
    ports = "node1: CA 'mlx5_0'\nnode1: \tCA type: MT4129\nnode1: \tPort 1:\nnode1: \t\tState: Down\n"
    ports += "node1: \t\tPhysical state: Polling\nnode1: \t\tRate: 400\n"
    found = first(links("node1", "26.562 GB/s") + ports)
    assert any("mlx5_0 port 1 is Down" in one.text for one in found.findings)


@pytest.mark.parametrize(
    "words",
    ["Non-fatal error on NVLink of GPU pci bus id 00000000:BB:00.0", "failed to set fatal error callback handler"],
)
def test_lines_that_name_fatal_errors_without_one_are_notes(words):
    facts = facts_of_text(FABRIC_MANAGER.format(words).replace("detected ", ""))
    assert not facts.values(Quantity.GPU_STATE) and len(facts.values(Quantity.NOTE)) == 1


def test_a_probe_that_succeeds_later_and_other_errors_of_the_driver_are_no_fault():
    probe = "[   11.4] nvidia: probe of 0000:17:00.0 failed with error -1\n"
    again = "[   21.4] nvidia 0000:17:00.0: enabling device (0000 -> 0003)\n"
    assert states_of(probe) and not states_of(probe + again) and states_of(probe + again + probe)
    assert states_of("[   11.4] nvidia 0000:17:00.0: probe with driver nvidia failed with error -1\n")
    other = "[   50.1] NVRM: GPU at PCI:0000:17:00: GPU-a\n[   50.2] NVRM: nvidia_p2p_get_pages failed with error 22\n"
    assert not states_of(other)


def test_health_of_switches_and_without_devices():
    row = "| {:<20} | {:<40} |\n"
    head = row.format("Health Monitor Report", "") + row.format("Overall Health", "Failure")
    assert states_of(head) == ["failure of dcgmi health, whose device the file does not name"]
    rows = (
        row.format("GPU", "")
        + row.format("-> 0", "Healthy")
        + row.format("NvSwitch", "")
        + row.format("-> 0", "Failure")
    )
    (fact,) = facts_of_text(head + rows).of(Quantity.GPU_STATE)
    assert fact.subject == ("NvSwitch 0",)


def test_repeated_reports_count_each_gpu_once(first):
    head = "index, name, pci.bus_id, clocks_event_reasons.sw_thermal_slowdown\n"
    rows = "0, NVIDIA H100 80GB HBM3, 00000000:1B:00.0, Active\n" * 3
    assert first(head + rows).findings[0].text.startswith("GPU 0 (0000:1b:00.0): SW Thermal")
    report = "==============NVSMI LOG==============\nGPU 00000000:19:00.0\n    Clocks Event Reasons\n"
    report += "        SW Power Cap                      : Active\n"
    assert any("of a GPU" in note for note in facts_of_text(report * 3).values(Quantity.NOTE))


IBSTAT = (
    "CA 'mlx5_0'\n\tCA type: MT4129\n\tPort 1:\n\t\tState: Active\n\t\tPhysical state: LinkUp\n\t\tRate: {}\n"
    "\t\tLink layer: InfiniBand\n"
)


def by_pdsh(**texts):
    """Return texts as pdsh prints them, with alternating hosts."""
    lines = [[f"{host}: {line}" for line in text.splitlines()] for host, text in texts.items()]
    return "".join(f"{line}\n" for same in zip(*lines, strict=True) for line in same)


def test_equal_statements_of_hosts_are_one_line_and_slow_ports_name_theirs(first):
    found = first(by_pdsh(gpu1=IBSTAT.format(400), gpu2=IBSTAT.format(200), gpu3=IBSTAT.format(400)))
    assert found.statements[0].startswith("gpu1, gpu3: active ports of network cards: 1 x 400 Gbit/s")
    (row,) = found.table.to_dict("records")
    assert (row["host"], row["device"], row["line"]) == ("gpu2", "mlx5_0 port 1", 8)
    assert row["text"] == "gpu2 mlx5_0 port 1 runs at 200 Gbit/s, most ports at 400 Gbit/s"
    # A file of one host names it, too.
    down = IBSTAT.format(400).replace("Active", "Down").replace("LinkUp", "Polling")
    assert first(by_pdsh(gpu1=down)).table["host"].tolist() == ["gpu1"]


def test_limits_and_packet_sizes_name_their_hosts(first):
    limits = "max locked memory           (kbytes, -l) {}\n"
    text = by_pdsh(n1=limits.format("unlimited"), n2=limits.format(64))
    assert first(text).findings[0].text.startswith("n2: a process may lock")
    links = (
        "2: eth0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu {} qdisc mq state UP\n    link/ether 0c:42:a1:00:00:0{} brd\n"
    )
    found = first(by_pdsh(n1=links.format(9000, 1), n2=links.format(1500, 2)))
    assert "1500 bytes on n2 and of 9000 on n1" in found.findings[0].text


def test_a_diagnosis_is_a_table_and_json(first, tmp_path):
    path = tmp_path / "ports.txt"
    path.write_text(by_pdsh(gpu1=IBSTAT.format(400), gpu2=IBSTAT.format(200), gpu3=IBSTAT.format(400)))
    run = CliRunner().invoke(app, ["diagnose", str(path), "--format", "json"])
    record = json.loads(run.output)
    assert run.exit_code == 1 and record["verdict"] == "a fault is stated"
    assert record["causes"][0]["host"] == "gpu2" and record["causes"][0]["file"] == str(path)
    assert set(record) == {"verdict", "text", "causes", "further_causes", "statements", "notes", "sources", "warnings"}
    table = CliRunner().invoke(app, ["diagnose", str(path), "--format", "csv"]).output
    assert table.splitlines()[0] == "cause,text,host,device,file,line,remedy,gain" and table.count("\n") == 2
    healthy = first(by_pdsh(gpu1=IBSTAT.format(400), gpu2=IBSTAT.format(400)))
    assert healthy.table.empty and list(healthy.table.columns) == list(first(path.read_text()).table.columns)


TOPO = "\tGPU0\tGPU1\tGPU2\tCPU Affinity\nGPU0\t X \tNV18\t{0}\t0-47\nGPU1\tNV18\t X \tNV18\t0-47\nGPU2\t{0}\tNV18\t X \t0-47\n"


def test_matrices_of_several_hosts_are_compared(first):
    same = {f"gpu{number}": TOPO.format("NV18") for number in range(3)}
    found = first(by_pdsh(**same))
    assert not found.findings and "nvidia-smi topo -m is the same on all 3 hosts" in found.notes
    assert len(found.tree.accelerator_names) == 3
    other = first(by_pdsh(**{**same, "gpu1": TOPO.format("NV16")}))
    (finding,) = [one for one in other.findings if one.cause == "host_differs_topology"]
    assert finding.text == "gpu1: GPU0-GPU2 is NV16, on 2 other hosts NV18" and finding.host == "gpu1"


def smi(*addresses, driver="570.86", errors=0):
    """Return the table of nvidia-smi."""
    head = f"| NVIDIA-SMI {driver}              Driver Version: {driver}      CUDA Version: 12.8     |\n"
    rows = (
        f"|   {number}  NVIDIA H100 80GB HBM3          On  |   00000000:{one}:00.0 Off |                  {errors} |\n"
        for number, one in enumerate(addresses)
    )
    return head + "".join(rows)


def of_hosts(**texts):
    return "".join(f"{host}: {line}\n" for host, text in texts.items() for line in text.splitlines())


def test_hosts_without_a_device_of_the_others_are_named(first):
    same = {f"n{number}": smi("1b", "43") for number in range(3)}
    assert not first(of_hosts(**same)).findings
    found = first(of_hosts(**{**same, "n1": smi("1b", driver="550.54")}))
    assert [(one.cause, one.host, one.text) for one in found.findings] == [
        ("host_differs_gpus", "n1", "n1 lists 1 GPU; each of 2 other hosts 2")
    ]
    assert "driver version differs between hosts: 550.54 on n1, 570.86 on 2 other hosts" in found.notes
    two = IBSTAT.format(400) + IBSTAT.format(400).replace("mlx5_0", "mlx5_1")
    ports = first(of_hosts(n1=two, n2=IBSTAT.format(400), n3=two))
    assert ports.findings[0].text == "n2 lacks mlx5_1 port 1, which each of 2 other hosts has"


def test_ports_that_are_slow_on_all_hosts_are_for_another_purpose(first):
    both = IBSTAT.format(400) + 2 * IBSTAT.format(400).replace("mlx5_0", "mlx5_1")
    storage = IBSTAT.format(200).replace("mlx5_0", "mlx5_8")
    assert not first(of_hosts(n1=both + storage, n2=both + storage)).findings
    slow = both.replace("Rate: 400", "Rate: 200", 1)
    found = first(of_hosts(n1=both + storage, n2=slow + storage, n3=both + storage))
    assert [one.device for one in found.findings] == ["mlx5_0 port 1"]


def test_errors_of_the_table_of_nvidia_smi_and_new_names_of_its_report(first):
    found = first(smi("1b", "43", errors=4))
    assert "4 uncorrectable ECC errors since the start of the driver (Volatile Uncorr. ECC)" in found.findings[0].text
    report = (
        "==============NVSMI LOG==============\nGPU 00000000:1B:00.0\n    Performance State                     : P0\n"
        "    GPU Link Info\n        PCIe Generation\n            Max : 5\n            Current : 3\n"
        "    Utilization\n        GPU                               : 99 %\n"
        "    Remapped Rows\n        Uncorrectable Error               : 1\n"
        "    MIG Mode\n        Current                           : Enabled\n"
    )
    found = first(report)
    assert "its link runs at Gen3 of Gen5 under load" in found.findings[0].text
    assert any("a row of its memory remapped" in one for one in found.statements)
    assert any("a GPU is divided (MIG)" in one for one in found.statements)


def test_files_of_states_without_a_fault_say_so(first):
    assert str(first(IBSTAT.format(400)).verdict).startswith("no fault is stated: rates are not measured")
    clean = "## Summary: 22 nodes checked, 0 bad nodes found\n##          64 ports checked, 0 ports have errors\n"
    assert str(first(clean).verdict).startswith("no fault is stated")
