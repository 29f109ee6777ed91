"""The cache on disk on bad days: never a wrong answer, never an error for the caller, nothing left that grows."""

import errno
import logging
import multiprocessing
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
from counting import HANGS

from tractile import storage
from tractile.constraints import Vocabulary, regex
from tractile.constraints.cache import eviction, store
from tractile.errors import StorageError

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
VOCAB = Vocabulary([*(bytes([b]) for b in range(256)), b"ab", None], eos_token_id=257)
WORDS = [bytes([a, b, c]) for a in b"abcdefgh" for b in b"xyz" for c in b"uvw"]
FORK = multiprocessing.get_context("fork")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TRACTILE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(store, "_unchecked", {})
    monkeypatch.setattr(store, "_warned", set())
    return tmp_path / "cache"


def name(number):
    return f"{number:064x}"


def arrays(number, size=500):
    return {"a": np.full(size, number, np.int32)}


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def check(word):
    """Compile one word with the cache; only it is accepted."""
    automaton = regex(word.decode()).compile(VOCAB, cache=True).finite
    text = list(word)
    assert automaton.accepts([*text, 257])
    assert not automaton.accepts([*text, 97, 257])
    assert not automaton.accepts([*text[:-1], 257])


# ---------------------------------------------------------------- many processes


def hammer(seed, rounds=40):
    """Compile words in random order in a cache that holds few of them; some files are damaged, some removed."""
    rng, cache = random.Random(seed), store.directory()
    for _ in range(rounds):
        check(rng.choice(WORDS))
        path = cache / rng.choice(names(cache) or ["none"])
        try:
            if rng.random() < 0.1:
                path.write_bytes(path.read_bytes()[: rng.randrange(400)])
            elif rng.random() < 0.1:
                path.unlink()
        except OSError:
            pass


def kept_bytes(folder):
    return sum(max(path.stat().st_size, eviction.LEAST_BYTES) for path in folder.iterdir())


@pytest.mark.parametrize(("method", "count"), [("fork", 8), pytest.param("spawn", 8, marks=pytest.mark.slow)])
def test_eight_processes_in_one_folder(folder, monkeypatch, method, count):
    most = 80_000
    monkeypatch.setenv("TRACTILE_CACHE_BYTES", str(most))
    check(WORDS[0])
    context = multiprocessing.get_context(method)
    processes = [context.Process(target=hammer, args=(seed,)) for seed in range(count)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(HANGS)
    assert [process.exitcode for process in processes] == [0] * count
    assert not list(folder.glob(".*"))
    assert 0 < kept_bytes(folder) <= most + count * (most // store.SHARE + eviction.LEAST_BYTES)


@pytest.mark.long
def test_a_fresh_process_reads_what_another_has_written(folder):
    """A process that shares nothing with this one but the folder."""
    check(b"abc")
    program = (
        "import tractile as tt; from tractile.constraints import Vocabulary, regex\n"
        "vocab = Vocabulary([*(bytes([b]) for b in range(256)), b'ab', None], eos_token_id=257)\n"
        "tt.constraints.explicit.written_out = None\n"
        "assert regex('abc').compile(vocab, cache=True).finite.accepts([97, 98, 99, 257])\n"
    )
    before = names(folder)
    subprocess.run([sys.executable, "-c", program], check=True, timeout=HANGS)
    assert names(folder) == before


# ---------------------------------------------------------------- kill -9


def die_at(line, job):
    """Run a job in a fork that is killed before its ``line``-th line in the code of the cache; whether it was."""
    files = {module.__file__ for module in (store, storage, eviction)}

    def run():
        count = 0

        def trace(frame, event, _):
            nonlocal count
            if frame.f_code.co_filename not in files:
                return None
            count += event == "line"
            if count == line:
                os.kill(os.getpid(), signal.SIGKILL)
            return trace

        sys.settrace(trace)
        job()

    process = FORK.Process(target=run)
    process.start()
    process.join(HANGS)
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


@pytest.mark.long
def test_killed_at_every_stage_of_writing(folder, monkeypatch):
    """Each line of the code that writes and evicts: what can be read is right, and the next process cleans up."""
    monkeypatch.setenv("TRACTILE_CACHE_BYTES", str(3 * eviction.LEAST_BYTES))
    for number in range(3):
        store.write("automaton", name(number), arrays(number))
    line, parts, kills = 1, 0, 0
    while die_at(line, lambda: store.write("automaton", name(7), arrays(7))):
        parts = max(parts, len(list(folder.glob(".*.part"))))
        found = store.read("automaton", name(7))
        assert found is None or np.array_equal(found["a"], arrays(7)["a"])
        for number in range(3):
            found = store.read("automaton", name(number))
            assert found is None or np.array_equal(found["a"], arrays(number)["a"])
        (folder / f"automaton-{name(7)}.safetensors").unlink(missing_ok=True)
        line, kills = line + 1, kills + 1
    assert kills > 40
    assert parts == 1  # of one file there is never more than one
    for number in range(20):  # other files: what was left of the first is removed all the same
        store.write("automaton", name(number), arrays(number))
    assert not list(folder.glob(".*"))
    assert kept_bytes(folder) <= 3 * eviction.LEAST_BYTES


def test_parts_of_killed_processes_do_not_pile_up(folder):
    """Processes that are killed while they write different files, also on machines whose names do not come again."""
    folder.mkdir()
    gone = FORK.Process(target=int)
    gone.start()
    gone.join()
    here, old = socket.gethostname(), time.time() - 2 * storage.DAY
    left = {}
    for number, (machine, process, when) in enumerate(
        [(here, gone.pid, None), (here, os.getpid(), None), ("gone", gone.pid, old), ("new", 1, None)]
    ):
        path = folder / f".automaton-{name(number)}.safetensors.{machine}.{process}.0.part"
        path.write_bytes(b"part")
        if when:
            os.utime(path, (when, when))
        left[path] = process != gone.pid
    others = (
        folder / "model-00001-of-00002.safetensors",
        folder / ".notes.part",
        folder / "trie-1.safetensors",
    )
    for path in others:
        path.write_bytes(b"not of the cache" * 1000)
    store.write("automaton", name(9), arrays(9))
    assert {path: path.exists() for path in left} == left
    eviction.evict(folder, 0)
    assert all(path.exists() for path in others)
    assert not list(folder.glob("automaton-*"))


# ---------------------------------------------------------------- disks


def fail_at(monkeypatch, call, error):
    """Let one function of the system fail: with any file, or with those of the cache."""

    def fail(*given, **options):
        raise OSError(error, os.strerror(error))

    if call == "open":
        monkeypatch.setattr(Path, "open", fail)
    elif call == "write":
        real = Path.open

        def opened(path, *given, **options):
            file = real(path, *given, **options)
            return type("Full", (), {
                "__enter__": lambda self: self,
                "__exit__": lambda self, *_: file.close(),
                "write": lambda self, piece: (file.write(piece[:7]), file.flush(), fail()),
            })()  # fmt: skip

        monkeypatch.setattr(Path, "open", opened)
    else:
        monkeypatch.setattr(os, call, fail)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.EIO])
@pytest.mark.parametrize("call", ["mkdir", "open", "write", "fsync", "replace", "scandir"])
def test_a_disk_that_fails_costs_only_a_warning(folder, monkeypatch, caplog, call, error):
    if call != "mkdir":
        folder.mkdir()
    with monkeypatch.context() as patch:
        fail_at(patch, call, error)
        with caplog.at_level(logging.WARNING):
            for word in WORDS[:3]:
                check(word)
    assert len(caplog.records) == 1, "one warning for all"
    assert "TRACTILE_CACHE names another" in caplog.text
    assert os.strerror(error) in caplog.text
    if folder.exists() and call != "scandir":
        assert names(folder) == []
    check(WORDS[0])
    assert len(names(folder)) >= 1


def test_a_disk_that_is_full(folder, tmp_path):
    """A file system of 64 kB: it fills, answers stay right, nothing half-written is left, and with room again it is used."""
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], capture_output=True)
    if mounted.returncode:
        pytest.skip("no file system can be mounted here")
    try:
        for word in WORDS:
            check(word)
        full = names(folder)
        assert 3 < len(full) < len(WORDS)
        assert not list(folder.glob(".*"))
        (folder / full[0]).unlink()
        for word in WORDS:
            check(word)
        assert len(names(folder)) == len(full)
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs users")
def test_a_folder_that_may_only_be_read(monkeypatch):
    """What is there is read, and nothing is written; tried by a process without the rights of root."""
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "cache"
        monkeypatch.setenv("TRACTILE_CACHE", str(folder))
        check(WORDS[0])
        before = names(folder)
        Path(parent).chmod(0o755)
        folder.chmod(0o555)
        process = FORK.Process(target=read_only, args=(folder, before))
        process.start()
        process.join(HANGS)
        folder.chmod(0o755)
        assert process.exitcode == 0
        assert names(folder) == before


def read_only(folder, before):
    if os.geteuid() == 0:
        os.setuid(65534)
    with pytest.raises(StorageError):
        storage.write_atomically(folder / "a", b"a")
    for word in WORDS[:3]:
        check(word)
    assert len(store._warned) == 1
    assert store.read("automaton", before[0][len("automaton-") : -len(".safetensors")]) is not None


# ---------------------------------------------------------------- its size


def test_the_files_used_least_recently_go_first(folder, monkeypatch):
    monkeypatch.setenv("TRACTILE_CACHE_BYTES", str(10 * eviction.LEAST_BYTES))
    monkeypatch.setattr(store, "SHARE", 1 << 40)  # looked for at each write
    for number in range(10):
        store.write("automaton", name(number), arrays(number))
        os.utime(folder / f"automaton-{name(number)}.safetensors", (number, number))
    assert store.read("automaton", name(0)) is not None  # now the latest
    for number in (10, 11):
        store.write("automaton", name(number), arrays(number))
    there = [number for number in range(12) if store.read("automaton", name(number)) is not None]
    assert there == [0, *range(3, 12)]


def test_what_does_not_fit_is_not_written(folder, monkeypatch, caplog):
    monkeypatch.setenv("TRACTILE_CACHE_BYTES", "1000")
    store.write("automaton", name(0), arrays(0))
    assert not folder.exists()
    monkeypatch.setenv("TRACTILE_CACHE_BYTES", "2 GB")
    with caplog.at_level(logging.WARNING):
        for number in range(3):
            store.write("automaton", name(number), arrays(number))
    assert len(names(folder)) == 3
    assert [record.getMessage() for record in caplog.records] == [
        "TRACTILE_CACHE_BYTES is '2 GB', not a whole number of bytes: 1,073,741,824 is taken"
    ]
