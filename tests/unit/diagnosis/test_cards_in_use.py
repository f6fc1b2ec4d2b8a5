"""Network cards that NCCL lists, beside the ports that files state."""

import pytest

PORT = "CA '{0}'\n\tCA type: {1}\n\tPort 1:\n\t\tState: Active\n\t\tPhysical state: LinkUp\n\t\tRate: {2}\n\t\tLink layer: {3}\n"
COMPUTE = "".join(PORT.format(f"mlx5_{number}", "MT4129", 400, "InfiniBand") for number in range(8))
STORAGE = PORT.format("mlx5_8", "{}", 200, "InfiniBand")
BOND = PORT.format("mlx5_bond_0", "MT4125", 25, "Ethernet")


def log(cards):
    used = " ".join(f"[{place}]{card}" for place, card in enumerate(cards))
    return "".join(
        f"n{1 + rank // 8}:1:1 [{rank % 8}] NCCL INFO comm 0x1 rank {rank} nranks 16 cudaDev {rank % 8} busId 1{rank % 8}000 commId 0x2 - Init START\n"
        f"n{1 + rank // 8}:1:1 [{rank % 8}] NCCL INFO NET/IB : Using {used} [RO]; OOB eth0:10.0.0.1<0>\n"
        f"n{1 + rank // 8}:1:1 [{rank % 8}] NCCL INFO Channel 00/0 : {rank}[{rank % 8}] -> {(rank + 8) % 16}[{rank % 8}] [send] via NET/IB/0/GDRDMA\n"
        for rank in range(16)
    )


@pytest.mark.parametrize(("model", "is_fault"), [("MT4123", False), ("MT4129", True)])
def test_a_card_of_another_model_may_be_slower(first, model, is_fault):
    causes = [one.cause for one in first(COMPUTE + STORAGE.format(model) + BOND).findings]
    assert causes == (["network_port"] if is_fault else [])


def test_a_slow_port_that_nccl_does_not_use_is_no_fault(first):
    ports = COMPUTE + STORAGE.format("MT4129")
    assert not first(log([f"mlx5_{number}:1/IB" for number in range(8)]), ports).findings
    assert first(log([f"mlx5_{number}:1/IB" for number in range(9)]), ports).findings[0].cause == "network_port"


@pytest.mark.parametrize(
    ("cards", "words"),
    [
        (["mlx5_0:1/IB"], "NCCL uses 1 network card for the 8 GPUs of a node, which has 8 active ports of their rate"),
        (
            ["mlx5_bond_0:1/RoCE"],
            "1 network card (25 Gbit/s) for the 8 GPUs of a node, which has 8 active ports of 400",
        ),
        ([f"mlx5_{number}:1/IB" for number in range(8)], ""),
    ],
)
def test_fewer_cards_than_gpus_are_a_cause_without_a_setting(first, cards, words):
    texts = " ".join(one.text for one in first(log(cards), COMPUTE + BOND).findings)
    assert words in texts and bool(words) == ("network card" in texts)


def test_virtual_functions_are_no_further_cards(first):
    functions = "".join(PORT.format(f"mlx5_{number}", "MT4130", 400, "InfiniBand") for number in range(1, 9))
    found = first(log(["mlx5_0:1/IB"]), PORT.format("mlx5_0", "MT4129", 400, "InfiniBand") + functions)
    assert not any("network card" in one.text for one in found.findings)


def test_ports_of_hosts_whose_cards_no_log_lists_are_compared(first):
    port = PORT.format("rocep{}s0", "MT4129", "{}", "Ethernet")
    ports = "".join(port.format(number, 200 if number == 3 else 400) for number in range(8))
    other = "".join(f"n9: {line}\n" for line in ports.splitlines())
    own = "".join(f"n1: {line}\n" for line in COMPUTE.splitlines())
    causes = [one.text for one in first(log([f"mlx5_{number}:1/IB" for number in range(8)]), own + other).findings]
    assert any("n9 rocep3s0 port 1 runs at 200 Gbit/s" in text for text in causes)
