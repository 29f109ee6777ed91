"""Corpora for the tests of distillation: a distribution that is known, and sampling that can be killed."""

import multiprocessing
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from counting import HANGS

import tractile as tt
from tractile import distill
from tractile.distill import checkpoint, heartbeat
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
        heartbeat.BEAT, heartbeat.DOUBTED = 0.2, 2.0
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


def together(
    job: Callable[..., object], *args: object, size: int = 2, gate: Gate | None = None
) -> list[multiprocessing.Process]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return [start(job, *args, rank=rank, size=size, port=port, gate=gate) for rank in range(size)]


def kill_when(
    there: Callable[[], bool],
    job: Callable[..., object],
    *args: object,
    size: int = 1,
    which: int = -1,
    by: int = signal.SIGKILL,
) -> list[int | None]:
    """Start ranks and kill one, or send it another signal, as soon as something is there; the others' exit codes."""
    gate = Gate(there)
    others = together(job, *args, size=size, gate=gate)
    lost = others.pop(which)
    assert gate.arrived.poll(HANGS)
    os.kill(lost.pid, by)
    if by == signal.SIGKILL:
        lost.join()
    gate.open.send(None)
    codes = finish(*others)
    lost.kill()
    lost.join()
    return codes


def fit(corpus: Path, out: Path, transition: str = "dense", *, shard: bool = False, **options: float) -> None:
    settings = {"batch_size": 50, "chunk_size": 10, "checkpoint_minutes": 0, "token_dropout": 0.05} | options
    settings |= {"held_out": 0.1, "out": out, "dtype": torch.float32, "transition": transition, "epochs": 3}
    (distill.train_sharded if shard else distill.train)(corpus, 6, **settings)


def has_checkpoint(out: Path) -> bool:
    return checkpoint.last_step(out) > 0


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
