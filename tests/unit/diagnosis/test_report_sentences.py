"""Sentences in which an author states that a setting ends a failure."""

import pytest

HANG = "The job hangs at the first all_reduce.\n"


@pytest.mark.parametrize(
    ("sentence", "path"),
    [
        ("Setting NCCL_P2P_DISABLE=1 did workaround but got really low speed.", "direct copies between GPUs"),
        (
            "I confirmed that the model works by setting the variable NCCL_P2P_DISABLE =1 .",
            "direct copies between GPUs",
        ),
        ("Setting `NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1` resolves it.", "direct copies between GPUs or shared memory"),
        ("When I set NCCL_IB_DISABLE=1 the test passes.", "InfiniBand or RoCE cards"),
        ("With `NCCL_NVLS_ENABLE=0` everything runs fine.", "NVLink SHARP (NVLS)"),
    ],
)
def test_a_setting_that_ends_a_failure_is_its_cause(first, sentence, path):
    found = first(HANG + sentence + "\n")
    assert found.findings[0].cause == "cured_by_setting"
    assert f"it is one of {path} (" in found.findings[0].text
    assert found.findings[0].origin.endswith(":2")
    assert "a fault is stated" in str(found.verdict)


@pytest.mark.parametrize(
    "sentence",
    [
        "Setting NCCL_P2P_DISABLE=1 does not help.",
        "NCCL_P2P_DISABLE=1 didn't fix the problem.",
        "Could you try NCCL_P2P_DISABLE=1 and see if it works?",
        "It still hangs with NCCL_P2P_DISABLE=1, which worked before.",
        "NCCL_P2P_DISABLE=0 works.",
        "NCCL_P2P_DISABLE=1 ./build/all_reduce_perf -g 2",
    ],
)
def test_other_sentences_are_no_cause(first, sentence):
    log = "a:1:1 [0] NCCL INFO NCCL version 2.18.3+cuda12.2\n"
    assert not [one for one in first(HANG + log + sentence + "\n").findings if one.cause == "cured_by_setting"]


def test_a_measured_slowness_does_not_hide_the_statement(first):
    topology = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPIX\t0-7\nGPU1\tPIX\t X \t0-7\n"
    assert first(HANG + topology + "NCCL_P2P_DISABLE=1 solved it.\n").findings[0].cause == "cured_by_setting"
