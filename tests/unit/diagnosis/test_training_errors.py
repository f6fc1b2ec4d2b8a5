"""Errors by which PyTorch, Ray, JAX and Horovod state why processes stop or wait."""

import pytest


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            "(raylet) 1 Workers (tasks / actors) killed due to memory pressure (OOM)",
            "memory of its host is nearly full",
        ),
        (
            "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.",
            "memory of its host is nearly full",
        ),
        ("RuntimeError: DataLoader worker (pid 262) is killed by signal: Bus error.", "no shared memory (/dev/shm)"),
        ("RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed.", "lack of memory of the host"),
        ("Expected 8 threads to join the rendezvous, but not all of them arrived on time", "operation of JAX"),
        ("your module has parameters that were not used in producing loss.", "does not use"),
        (
            "Detected kernel version 5.4.250, which is below the recommended minimum of 5.5.0; this can hang",
            "version of Linux",
        ),
        ("ncclOsSocketTryAccept: Accept failed: Too many open files", "too many open files"),
        ("RuntimeError: CUDA error: invalid device ordinal", "number of a GPU that it does not see"),
        ("HorovodBroadcast_weights_0 [missing ranks: 0]", "rank 0 does not call operations"),
        ("HorovodBroadcast_weights_0 [missing ranks: 0, 3]", "ranks 0, 3 do not call operations"),
    ],
)
def test_a_line_states_why_a_job_stops(first, line, words):
    assert words in first(f"some words\n{line}\n").findings[0].text


def test_a_process_that_sees_one_gpu_has_the_number_zero(first):
    error = "RuntimeError: CUDA error: invalid device ordinal\n"
    assert "whose number is 0" in first("#SBATCH --gpus-per-task=1\n" + error).findings[0].text
    assert "whose number is 0" not in first("CUDA_VISIBLE_DEVICES=0,1\n" + error).findings[0].text


def test_ranks_that_miss_each_other_call_different_operations(first):
    text = "Missing ranks:\n0: [broadcast.bool.sz]\n"
    assert "rank 0 does not call operations" in first(text).findings[0].text
    found = first(text + "1: [allreduce.c_d1.bias, allreduce.c_d1.weight ...]\n").findings[0]
    assert found.text.endswith("rank 0 lacks broadcast.bool.sz, rank 1 lacks allreduce.c_d1.bias")


def test_tasks_that_miss_a_barrier_are_listed(first):
    text = "DEADLINE_EXCEEDED: Barrier timed out. Barrier_id: PjRT_Client_Connect. Timed out task names:\n"
    text += "".join(f"/job:jax_worker/replica:0/task:{number}\n" for number in (3, 0)) + "\n/task:9\n"
    assert first(text).findings[0].text == "tasks 0, 3 do not come to the barrier PjRT_Client_Connect"


def test_two_ranks_with_different_calls_or_shapes_are_named(first):
    line = (
        "RuntimeError: Detected mismatch between collectives on ranks. Rank 3 is running collective: "
        "CollectiveFingerPrint(SequenceNumber=1, OpType=BROADCAST, TensorShape=[1], TensorDtypes=Long), but Rank 0 is "
        "running collective: CollectiveFingerPrint(SequenceNumber=1, OpType={}, TensorShape=[{}], TensorDtypes=Long).\n"
    )
    assert first(line.format("REDUCE", 1)).findings[0].text == "rank 3 calls BROADCAST, and rank 0 REDUCE"
    assert (
        "BROADCAST has the shape [1] on rank 3, and [2] on rank 0"
        in first(line.format("BROADCAST", 2)).findings[0].text
    )


def test_prose_about_memory_is_no_error(first):
    log = "a:1:1 [0] NCCL INFO NCCL version 2.18.3+cuda12.2\n"
    assert not first(log + "We saw no memory pressure, and the DataLoader worker runs.\n").findings


def test_direct_copies_that_were_switched_off_are_not_proposed_again(first):
    error = "Cuda failure 217 'peer access is not supported between these two devices'\n"
    assert "test with NCCL_P2P_DISABLE=1" in first(f"a:1:1 [0] NCCL WARN {error}").findings[0].remedy
    off = "a:1:1 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1.\n"
    assert "NCCL_P2P_DISABLE" not in first(f"{off}a:1:1 [0] NCCL WARN {error}").findings[0].remedy


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("[[ System not yet initialized (error 802) ]]", "CUDA is not ready (error 802)"),
        ("RuntimeError: CUDA error: uncorrectable ECC error encountered", "uncorrectable error (ECC)"),
        ("Duplicate GPU detected : rank 9 and rank 1 both on CUDA device 34000", "two ranks use the same GPU"),
        ("Warning: Unable to resolve hostname to a (local) address. Using the loopback address", "loopback address"),
    ],
)
def test_messages_outside_of_nccl_have_their_meaning(first, line, words):
    assert words in first(f"{line}\n").findings[0].text


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            "DistStoreError: Timed out after 1801 seconds waiting for clients. 1/2 clients joined.",
            "1 of 2 processes came",
        ),
        (
            (
                "Timed out initializing process group in store based barrier on rank: 3, for key: store_based_barrier_key:1 "
                "(world_size=2, worker_count=13, timeout=0:30:00)"
            ),
            "13 processes came to the start of a job of 2",
        ),
        (
            (
                "Waiting in store based barrier to initialize process group for rank: 1, key: store_based_barrier_key:1 "
                "(world_size=8, worker_count=4, timeout=0:30:00)"
            ),
            "",
        ),
    ],
)
def test_processes_that_do_not_come_to_the_start_of_pytorch(first, line, words):
    log = "n1:1:1 [0] NCCL INFO NCCL version 2.18.3+cuda12.2\n"
    assert words in "".join(one.text for one in first(f"{log}{line}\n").findings)
    assert bool(words) == bool(first(f"{log}{line}\n").findings)


@pytest.mark.parametrize(
    "text",
    [
        "Not all ranks joining collective 5 at entry 4\ngroup info: 0:default_pg\ncollective: nccl:all_reduce\nmissing ranks: {1, 3}\n",
        "Not all ranks joining collective for group 0:default_pg collective nccl:all_reduce Missing ranks are {1, 3}\n",
    ],
)
def test_ranks_that_the_flight_recorder_misses(first, text):
    expected = "ranks 1, 3 do not call an operation (all_reduce) for which the others wait"
    assert [one.text for one in first(text).findings] == [expected]
