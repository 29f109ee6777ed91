"""Notice that a rank of a job is gone, whatever the others are doing: each says every two seconds that it lives.

    beat/<rank>    a number that grows, "left", or "stopped: <error>", in the store of the job (at MASTER_ADDR:MASTER_PORT)

A thread of each rank writes its own entry and reads those of the others. A rank that has said nothing for a minute is lost; then
the process ends with a message that names the rank, since no collective operation would ever return. What is written to disk is
written atomically, so the job can be started again.
"""

from __future__ import annotations

import os
import sys
import time
from datetime import timedelta
from functools import cache
from itertools import count
from threading import Event, Thread
from types import TracebackType
from typing import TYPE_CHECKING, Self

from ..errors import RankLost
from .run_folder import here

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import PrefixStore, Store

BEAT = 2.0
"""Seconds between two signs of life."""

SILENCE = 60.0
"""Seconds without a sign of life after which a rank is lost."""

DOUBTED = 10.0
"""The same once an operation of this rank has failed."""

START = 600.0
"""Seconds within which all ranks must have begun."""

CURE = "the other ranks stop too; give the same command again: it goes on from what was saved last"
_jobs = count()  # the number of times this process has joined a job, which is the same on all ranks


@cache
def _store() -> Store:
    """Return the store of the job, which lives as long as this process: rank 0 serves it unless torchrun's agent does."""
    from torch.distributed.rendezvous import rendezvous

    store, _, _ = next(rendezvous("env://", timeout=timedelta(seconds=START)))
    found: Store = store
    return found


def store_of_job(job: str) -> PrefixStore:
    """Return the part of the store that belongs to one job of this process."""
    from torch.distributed.distributed_c10d import PrefixStore

    return PrefixStore(job, _store())


class Heartbeat:
    """The signs of life of a rank, from the beginning of a ``with`` block to its end; all ranks enter it together.

    Raises :class:`RankLost` if ranks are missing after ten minutes.
    """

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size
        self.job = f"tractile/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}/{next(_jobs)}"
        self.is_lost = False  # whether this rank has found that another is lost
        self._over = Event()
        self._heard: dict[int, tuple[str, float]] = {}
        self._unreachable = ""

    def __enter__(self) -> Self:
        from torch.distributed import TCPStore  # type: ignore[attr-defined]
        from torch.distributed.distributed_c10d import PrefixStore

        address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        try:
            _store()
            # A connection of its own: one that waits for a key lets nobody else through.
            client = TCPStore(address, port, is_master=False, timeout=timedelta(seconds=START))
        except RuntimeError as error:
            raise RankLost(f"rank 0 is not there: nothing answers at {address}:{port} ({error})") from error
        self._client = PrefixStore(self.job, client)
        self._client.set(f"who/{self.rank}", here())
        self._say("0")
        self._await_all()
        self._heard = {rank: ("", time.monotonic()) for rank in range(self.size)}
        self._who = [self._client.get(f"who/{rank}").decode() for rank in range(self.size)]
        self._thread = Thread(target=self._watch, name="heartbeat", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join(2 * BEAT)
        mine = error is not None and not isinstance(error, RankLost)
        try:
            self._say(f"stopped: {type(error).__name__}: {error}" if mine else "left")
        except RuntimeError:  # the store is gone, and so are those who would read it
            return

    def who_is_lost(self) -> str:
        """Wait until it is clear which rank made an operation fail; return a message that names it, "" if all live."""
        end = time.monotonic() + DOUBTED + 2 * BEAT
        while not (said := self._lost(DOUBTED)) and time.monotonic() < end:
            time.sleep(BEAT / 4)
        self.is_lost = bool(said)
        return said

    def _say(self, what: str) -> None:
        self._client.set(f"beat/{self.rank}", what)

    def _await_all(self) -> None:
        end = time.monotonic() + START
        while missing := [r for r in range(self.size) if not self._client.check([f"beat/{r}"])]:
            if time.monotonic() > end:
                names = ", ".join(map(str, missing))
                raise RankLost(
                    f"rank {names} of {self.size} has not begun within {START:.0f} seconds: start all of them"
                )
            time.sleep(0.05)

    def _watch(self) -> None:
        """Say that this rank lives and listen to the others; end the process if one is lost and nothing else ends it."""
        for number in count(1):
            if self._over.wait(BEAT):
                return
            try:
                self._say(str(number))
                keys = [f"beat/{rank}" for rank in range(self.size)]
                for rank, value in enumerate(self._client.multi_get(keys)):
                    if self._heard[rank][0] != value.decode():
                        self._heard[rank] = value.decode(), time.monotonic()
            except RuntimeError as error:
                self._unreachable = f"rank 0 ({self._who[0]}), or the agent of torchrun, serves the job no more: {error}; {CURE}"
            if (said := self._lost(SILENCE)) and not self._over.wait(DOUBTED + 4 * BEAT):
                print(f"tractile: rank {self.rank}: {said}", file=sys.stderr, flush=True)
                os._exit(1)

    def _lost(self, silence: float) -> str:
        """Return who is lost, and what to do; "" if nobody is."""
        if self._unreachable:  # nobody can be heard
            return self._unreachable
        now, found = time.monotonic(), list[str]()
        for rank, (said, since) in list(self._heard.items()):
            name = f"rank {rank} ({self._who[rank]})"
            if said.startswith("stopped: "):
                found.append(f"{name} {said}")
            elif said != "left" and rank != self.rank and now - since > silence:
                found.append(f"{name} has not been heard of for {now - since:.0f} seconds")
        return f"{'; '.join(found)}; {CURE}" if found else ""
