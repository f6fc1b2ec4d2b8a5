"""Synthetic timers and PCIe traces of a system with known components."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.breakdown.components import System
from fabricast.breakdown.traces import TIMER_COLUMNS, TRACE_COLUMNS
from fabricast.core.seeds import random_generator


def generate_timers(system: System, *, iterations: int, jitter: float, overhead_ns: float, seed: int) -> pd.DataFrame:
    """Generate CPU timers of a system with known components.

    Parameters
    ----------
    system : System
        System with the component times.
    iterations : int
        Number of samples of each region.
    jitter : float
        Relative standard deviation of each sample.
    overhead_ns : float
        Overhead of the clock in ns, included in each sample.
    seed : int
        Root seed.

    Returns
    -------
    pandas.DataFrame
        Rows as returned by `read_timers`.
    """
    generator = random_generator(seed, f"breakdown.timers.{system.system}")
    uct_post = system.total_ns("llp_post")
    llp_prog = system.time_ns("llp_prog")
    truth = {
        **{name: system.time_ns(name) for name in ("md_setup", "md_barrier", "dbc_barrier", "pio_copy")},
        "uct_post": uct_post,
        "mpi_isend": uct_post + system.time_ns("hlp_post"),
        "uct_progress": llp_prog,
        "send_progress": system.time_ns("hlp_tx_prog"),
        "receive_progress": llp_prog + system.time_ns("hlp_rx_prog"),
    }
    rows = [
        (region, region, i, value * (1 + jitter * noise) + overhead_ns, overhead_ns)
        for region, value in truth.items()
        for i, noise in enumerate(generator.standard_normal(iterations))
    ]
    return pd.DataFrame(rows, columns=list(TIMER_COLUMNS))


def generate_trace(
    system: System,
    *,
    posts: int,
    jitter: float,
    seed: int,
    lost_acks: float = 0.0,
    writes_per_ack: int = 1,
    lost_completions: float = 0.0,
) -> pd.DataFrame:
    """Generate a PCIe trace of a system with known components.

    Parameters
    ----------
    system : System
        System with the component times.
    posts : int
        Number of posts of each run.
    jitter : float
        Relative standard deviation of each duration.
    seed : int
        Root seed.
    lost_acks, lost_completions : float, default 0
        Fractions of the ACK and completion rows that are missing in the trace.
    writes_per_ack : int, default 1
        Number of writes that one ACK acknowledges.

    Returns
    -------
    pandas.DataFrame
        Rows as returned by `read_trace`, sorted by run and time.
    """
    generator = random_generator(seed, f"breakdown.trace.{system.system}")

    def vary(value: float, size: int) -> NDArray[np.float64]:
        varied: NDArray[np.float64] = value * (1 + jitter * generator.standard_normal(size))
        return np.maximum(varied, 0.0)

    frames = []
    pcie, network = system.time_ns("pcie"), system.total_ns("network")
    for run, crossing in (("injection", network), ("back_to_back", system.time_ns("wire"))):
        t_post = np.cumsum(vary(system.total_ns("injection"), posts))
        last = np.arange(system.posts_per_completion - 1, posts, system.posts_per_completion)
        t_completion = t_post[last] + vary(2 * crossing, last.size)
        t_ack = t_completion + vary(2 * pcie, last.size)
        number = np.arange(last.size)
        covered = (number + 1) % writes_per_ack == 0
        kept_acks = covered & (generator.random(last.size) >= lost_acks)
        kept = generator.random(last.size) >= lost_completions
        frames.append(
            pd.DataFrame(
                {
                    "run_id": run,
                    "t_ns": t_post,
                    "direction": "down",
                    "tlp_type": "MWr",
                    "payload_b": 64.0,
                    "seq_num": np.arange(posts),
                    "role": "post",
                }
            )
        )
        frames.append(
            pd.DataFrame(
                {
                    "run_id": run,
                    "t_ns": t_completion[kept],
                    "direction": "up",
                    "tlp_type": "MWr",
                    "payload_b": 64.0,
                    "seq_num": number[kept],
                    "role": "completion",
                }
            )
        )
        frames.append(
            pd.DataFrame(
                {
                    "run_id": run,
                    "t_ns": t_ack[kept_acks],
                    "direction": "down",
                    "tlp_type": "ACK",
                    "acked_seq": number[kept_acks],
                    "role": "other",
                }
            )
        )
    answer = 2 * pcie + system.time_ns("rc_to_mem") + system.time_ns("llp_prog") + system.total_ns("llp_post")
    t_payload = np.arange(1, posts + 1) * 4 * answer
    t_answer = t_payload + vary(answer, posts)
    frames.append(
        pd.DataFrame(
            {
                "run_id": "ping_pong",
                "t_ns": t_payload,
                "direction": "up",
                "tlp_type": "MWr",
                "payload_b": 8.0,
                "seq_num": np.arange(posts),
                "role": "payload",
            }
        )
    )
    frames.append(
        pd.DataFrame(
            {
                "run_id": "ping_pong",
                "t_ns": t_answer,
                "direction": "down",
                "tlp_type": "MWr",
                "payload_b": 64.0,
                "seq_num": np.arange(posts),
                "role": "post",
            }
        )
    )
    trace = pd.concat(frames, ignore_index=True).sort_values(["run_id", "t_ns"], kind="stable", ignore_index=True)
    trace["seq"] = np.arange(len(trace), dtype=np.float64)
    return trace[list(TRACE_COLUMNS)]
