"""Interfaces, TCP and Omni-Path ports of hosts, and operations of MPI."""

import pytest

from fabricast.core.errors import InputError
from fabricast.core.facts import Quantity
from fabricast.sources.reading import facts_of_text
from tests.messages import read_output

IP = "{number}: {name}: <{flags}> mtu {mtu} qdisc mq state {state} qlen 1000\n    link/ether 02:00:00:00:00:{address}\n"
UP = "BROADCAST,MULTICAST,UP,LOWER_UP"


def ip(name, mtu, address, flags=UP):
    return IP.format(number=2, name=name, flags=flags, mtu=mtu, state="UP", address=address)


def notes(text):
    return facts_of_text(text).values(Quantity.NOTE)


def test_interfaces_are_listed_with_their_packet_sizes():
    text = ip("eth0", 9000, "01") + ip("docker0", 1500, "02") + ip("eth1", 1500, "03", "NO-CARRIER,BROADCAST,UP")
    assert notes(text) == ["interfaces that are up: eth0 (MTU 9000); down: eth1"]
    old = (
        "eth0: flags=4163<UP,BROADCAST,RUNNING,MULTICAST>  mtu 1500\n        ether 02:00:00:00:00:01  txqueuelen 1000\n"
    )
    assert notes(old) == ["interfaces that are up: eth0 (MTU 1500)"]
    table = "Iface      MTU    RX-OK RX-ERR RX-DRP RX-OVR    TX-OK TX-ERR TX-DRP TX-OVR Flg\n"
    row = "ib0              2044     7267      0      {} 0             7      0      0      0 BMsRU\n"
    assert notes(table + row.format(0)) == ["interfaces that are up: ib0 (MTU 2044)"]
    assert "RX-DRP of ib0 31" in notes(table + row.format(31))[1]


def test_hosts_with_unequal_packets_are_a_cause_and_the_same_host_twice_is_not(first):
    found = first(ip("eth0", 9000, "01") + ip("eth0", 1500, "02"))
    assert found.findings[0].cause == "unequal_packets"
    assert "1500 bytes on one host and of 9000 on another" in found.findings[0].text
    assert not first(ip("eth0", 9000, "01") + ip("eth0", 1500, "01")).findings
    assert not first(ip("eth0", 9000, "01") + ip("eth1", 1500, "02")).findings


@pytest.mark.parametrize(
    ("lines", "state"),
    [
        ("\tSpeed: 10000Mb/s\n\tLink detected: yes\n", "runs at 10 Gbit/s, its card supports 100 Gbit/s"),
        ("\tSpeed: Unknown!\n\tLink detected: no\n", "is without a link (Link detected: no)"),
        ("\tSpeed: 100000Mb/s\n\tDuplex: Half\n\tLink detected: yes\n", "sends and receives in turn (Duplex: Half)"),
    ],
)
def test_ethtool_states_slow_and_missing_links(first, lines, state):
    modes = (
        "Settings for eth2:\n\tSupported link modes:   25000baseCR/Full\n\t                        100000baseCR4/Full\n"
    )
    found = first(f"{modes}\tAdvertised link modes:  400000baseCR8/Full\n{lines}")
    assert found.findings[0].text == f"eth2 {state}"
    assert not first(f"{modes}\tSpeed: 100000Mb/s\n\tDuplex: Full\n\tLink detected: yes\n").findings


def test_counters_that_are_not_zero_are_listed():
    text = "NIC statistics:\n     rx_packets: 12\n     rx_crc_errors_phy: 7\n     rx_discards_phy: 0\n     tx_prio3_pause: 9\n"
    assert "rx_crc_errors_phy 7, tx_prio3_pause 9" in notes(text)[0]
    assert "rx_packets" not in notes(text)[0]
    assert "no counter" in notes("NIC statistics:\n     rx_crc_errors_phy: 0\n")[0]


def run(retransmitted, *, summary=True):
    row = "[  4]   {}  sec  1.00 GBytes  8.59 Gbits/sec  {}{}\n"
    rows = row.format("0.00-1.00 ", retransmitted // 2, "    240 KBytes")
    rows += row.format("1.00-2.00 ", retransmitted // 2, "    240 KBytes")
    total = f"{retransmitted}             sender" if summary else ""
    return rows + f"[  4]   0.00-2.00   sec  2.00 GBytes  8.59 Gbits/sec  {total}\n"


def test_lost_packets_of_iperf_are_a_cause(first):
    segments = 2.0 * 2**30 / 1448
    lossy, clean = int(0.02 * segments), int(0.005 * segments)
    found = first(run(lossy))
    assert [one.cause for one in found.findings] == ["lost_packets"]
    assert "sent 2 % of the segments again" in found.findings[0].text
    assert [one.cause for one in first(run(lossy, summary=False)).findings] == ["lost_packets"]
    assert not first(run(clean)).findings
    assert len(notes(run(clean) + run(clean))) == 2


def test_both_directions_of_iperf_are_read_apart(first):
    row = "[  {}][{}-C]   0.00-{}   sec  {} GBytes  {} Gbits/sec    {}             sender\n"
    rows = [("5", "TX", "1.00", "1.10", "9.41", "0"), ("7", "RX", "1.00", "0.93", "8.00", "0")]
    rows += [("5", "TX", "2.00", "2.20", "9.41", "0"), ("7", "RX", "2.00", "1.86", "8.00", "0")]
    found = first("".join(row.format(*one) for one in rows))
    assert [one.partition(" (")[0] for one in found.statements] == [
        "iperf: 9.41 Gbit/s for 2 s, sent by the client while it receives",
        "iperf: 8 Gbit/s for 2 s, received by the client while it sends",
    ]


def test_omni_path_ports_that_are_slow_or_down_are_causes(first):
    port = "hfi1_0:1                           PortGID:0xfe80000000000000:0011\n"
    good = "   PortState:     Active\n   LinkWidth      Act: 4            En: 1,4\n   Link Quality: 5 (Excellent)\n"
    assert not first(port + good).findings
    for line, words in (
        ("   PortState:     Down\n", "is Down"),
        ("   LinkSpeed      Act: 12.5Gb       En: 12.5Gb,25Gb\n", "runs at 12.5 of 25 Gbit/s per lane"),
        ("   Link Quality: 2 (Poor)\n", "has links of quality 2 of 5 (Poor)"),
    ):
        assert f"hfi1_0:1 {words}" in first(port + line).findings[0].text


OSU = "# OSU MPI {} Latency Test v7.2\n# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations\n"


def osu(name, *times):
    rows = [f"{2 ** (10 + place)}  {time}  {time}  {time}  1000\n" for place, time in enumerate(times)]
    return OSU.format(name) + "".join(rows)


def test_operations_of_mpi_are_compared_with_each_other(first):
    found = first(osu("Allreduce", 10.0, 12.0, 20.0))
    assert not found.findings
    assert "add the same test of other hosts" in str(found.verdict)
    both = first(osu("Allreduce", 10.0, 12.0, 20.0) + osu("Allreduce", 10.0, 12.0, 60.0))
    assert "Allreduce of 4 KiB last 60 us, in the other table 20 us" in both.findings[0].text
    different = first(osu("Allreduce", 10.0, 12.0, 20.0) + osu("Broadcast", 10.0, 12.0, 60.0))
    assert not different.findings


def test_sizes_of_an_operation_that_last_longer_than_larger_ones_are_named(first):
    found = first(osu("All-to-All Personalized Exchange", 900.0, 950.0, 40.0, 80.0))
    assert found.findings[0].cause == "slower_than_larger_sizes"
    assert "2 sizes from 1 KiB to 2 KiB last longer" in found.findings[0].text
    assert not first(osu("Allreduce", 70.0, 90.0, 60.0)).findings


def test_imb_operations_have_their_number_of_processes_and_mean_times():
    rows = "#bytes #repetitions t_min[usec] t_max[usec] t_avg[usec]\n0 1000 0.1 0.2 0.1\n1024 1000 4.0 6.0 5.0\n"
    text = "# Benchmarking Alltoall \n# #processes = 16 \n" + rows
    text += "# Benchmarking PingPing\n# #processes = 2\n#bytes #repetitions t[usec] Mbytes/sec\n1024 1000 2.0 512.0\n"
    values = facts_of_text(text).values(Quantity.OPERATION_TIME)
    assert [(one.path, one.processes, one.size_bytes, one.time_s) for one in values] == [
        ("Alltoall", 16, 1024.0, pytest.approx(5e-6)),
        ("PingPing", 2, 1024.0, pytest.approx(2e-6)),
    ]


def test_fit_refuses_operations_and_reads_the_messages_beside_them(tmp_path):
    path = tmp_path / "osu.out"
    path.write_text(osu("Allreduce", 10.0, 12.0))
    with pytest.raises(InputError, match="has Allreduce of OSU"):
        read_output(path)
    path.write_text(osu("Allreduce", 10.0, 12.0) + "# OSU MPI Latency Test v7.2\n1024  2.0\n2048  3.0\n")
    assert read_output(path)["time_s"].tolist() == [2e-6, 3e-6]


def test_matrices_of_tensorflow_and_mxnet_state_which_pairs_may_copy(first):
    tensorflow = "I tensorflow/gpu_init.cc:136] 0:   Y Y N\nI tensorflow/gpu_init.cc:136] 1:   Y Y N\n"
    pair = "I tensorflow/gpu_init.cc:59] cannot enable peer access from device ordinal 0 to device ordinal 2\n"
    facts = facts_of_text(pair + tensorflow)
    access = {fact.subject: fact.value for fact in facts.of(Quantity.PEER_ACCESS)}
    assert {pair for pair, reason in access.items() if not reason} == {("0", "1"), ("1", "0")}
    assert {pair for pair, reason in access.items() if reason} == {("0", "2"), ("1", "2")}
    mxnet = "src/comm.h:743: only 4 out of 6 GPU pairs are enabled direct access\nsrc/comm.h:752: .vv\nsrc/comm.h:752: v..\n"
    found = first(mxnet)
    assert "4 of 6 pairs of GPUs may copy directly" in found.statements[0]
    assert "1 pairs" not in found.statements[1]
    assert "one of 3 pairs of GPUs has no peer access" in found.statements[1]


@pytest.mark.parametrize(("rate", "is_slow"), [(45.6, False), (5.5, True)])
def test_rates_of_nixlbench_are_compared_with_ports(first, rate, is_slow):
    table = (
        "Initiator seg type (--initiator_seg_type=[DRAM,VRAM])       : VRAM\n"
        "Target seg type (--target_seg_type=[DRAM,VRAM])             : DRAM\n"
        "Block Size (B)      Batch Size     Avg Lat. (us)  B/W (MiB/Sec)  B/W (GiB/Sec)  B/W (GB/Sec)\n"
        f"67108864            1              1471.8         {rate * 953.7}        {rate / 1.0737}        {rate}\n"
    )
    port = "CA 'mlx5_0'\n\tCA type: MT4129\n\tPort 1:\n\t\tState: Active\n\t\tPhysical state: LinkUp\n\t\tRate: 400\n"
    found = first(table, port)
    assert [one.cause for one in found.findings] == (["below_port_rate"] if is_slow else [])
    assert ("within the expected range" in str(found.verdict)) == (not is_slow)


def test_runs_of_iperf_with_titles_are_read_apart(first):
    row = "s{0}:  [  4]   {1}.00-{2}.00   sec   401 MBytes  3.3{0} Gbits/sec    0    446 KBytes\n"
    text = "".join(row.format(run, second, second + 1) for second in range(3) for run in (3, 1, 2))
    found = first(text)
    assert [one.split(" (")[0] for one in found.statements] == [f"iperf: 3.3{run} Gbit/s for 3 s" for run in (3, 1, 2)]


def test_an_interface_without_a_port_has_a_nominal_rate(first):
    text = "Settings for eth0:\n\tSupported ports: [{}]\n\tSupported link modes:   Not reported\n\tSpeed: 10000Mb/s\n\tDuplex: Full\n\tLink detected: yes\n"
    run = "[  5]   0.00-10.00  sec  3.5 GBytes  3.00 Gbits/sec    0             sender\n"
    assert first(text.format(" FIBRE "), run).findings[0].cause == "below_interface_rate"
    assert not first(text.format(" "), run).findings
