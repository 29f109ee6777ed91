"""Corpora for the tests of distillation: a distribution that is known, and sampling that can be killed."""

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from counting import HANGS

import tractile as tt
from tractile import distill
from tractile.distill.start import with_end_state
from tractile.lm import CircuitLM

EOS = 4


def source(seed: int = 3) -> tt.HMM:
    """A distribution over padded sequences of five tokens."""
    return with_end_state(tt.HMM.random(4, 5, seed=seed, dtype=torch.float64), EOS)


FORK = multiprocessing.get_context("fork")


def draw(out: Path, seed: int = 0) -> distill.Corpus:
    lm = CircuitLM(source(), eos_token_id=EOS)
    return distill.sample(lm, out, 610, 9, [""], shard_size=16, batch_size=8, seed=seed)


class Gate:
    """Where processes stop: at the first write to a file once something is there, until all may go on."""

    def __init__(self, condition: Callable[[], bool]) -> None:
        self.condition = condition
        self.arrived, self.arrive = FORK.Pipe(duplex=False)
        self.opened, self.open = FORK.Pipe(duplex=False)

    def passed(self) -> None:
        if self.condition():
            self.arrive.send(None)
            self.opened.poll(None)  # what is sent stays there, for the others


def start(
    job: Callable[..., object],
    *args: object,
    rank: int = 0,
    size: int = 1,
    port: int = 0,
    gate: Gate | None = None,
    calls: int | None = None,
) -> multiprocessing.Process:
    """A process that runs a job, as a rank of ``torchrun`` would, and kills itself at its n-th of ``calls`` of Python."""

    def killed(*_: object) -> None:
        nonlocal calls
        calls -= 1
        if calls < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def run() -> None:
        torch.set_num_threads(1)
        flush = os.fsync
        if gate is not None:
            os.fsync = lambda file: (gate.passed(), flush(file))[1]
        os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1"}
        os.environ |= {"MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo"}
        sys.setprofile(None if calls is None else killed)
        job(*args)

    process = FORK.Process(target=run)
    process.start()
    return process


def finish(*processes: multiprocessing.Process) -> list[int | None]:
    for process in processes:
        process.join(HANGS)
    return [process.exitcode for process in processes]
