"""Programs that advice names on machines with GPUs of AMD."""

import pytest

ROW = "{0} {1} float sum -1 {2:.2f} {3:.2f} {4:.2f} 0\n"


def table(host, rate, gpu):
    ranks = "".join(f"#  Rank {n} Group  0 Pid 1 on {host} device {n} [0000:{n}5:00.0] {gpu}\n" for n in range(8))
    rows = "".join(ROW.format(2**n, 2**n // 4, 2**n * 1.75 / rate / 1e3, rate / 1.75, rate) for n in (28, 30, 33))
    return f"# Collective test starting: all_reduce_perf\n{ranks}# size count type redop root time algbw busbw #wrong\n{rows}"


@pytest.mark.parametrize(
    ("gpu", "rate", "program"),
    [("AMD Instinct MI300X", 190.0, "rocm-smi"), ("NVIDIA H100 80GB HBM3", 290.0, "nvidia-smi")],
)
def test_advice_names_the_programs_of_the_vendor(first, gpu, rate, program):
    remedies = " ".join(one.remedy for one in first(table("n1", rate, gpu)).findings)
    assert program in remedies
    assert ("nvidia" in remedies) == (program == "nvidia-smi")
