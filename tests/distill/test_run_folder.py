"""A folder belongs to one process and one run, files are whole, and damage is found: whoever does otherwise is told so."""

import json
import logging
import os
import random
import signal
import socket
import stat
import sys
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch
from commands import assert_refused, run
from corpora import EOS, Gate, draw, finish, source, start
from counting import HANGS

import tractile as tt
from tractile import distill
from tractile.distill import checkpoint, run_folder
from tractile.distill.run_folder import differences, locked
from tractile.errors import FolderInUse, FormatError, StorageError
from tractile.storage import write_atomically
from tractile_bench import guides

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


@pytest.fixture(scope="module")
def corpus() -> distill.Corpus:
    tokens = torch.randint(0, 5, (40, 6), generator=torch.Generator().manual_seed(0))
    return distill.Corpus.of(tokens, 5, EOS)


def fit(corpus: distill.Corpus, out: Path, **options: object) -> tt.HMM:
    settings = {"hidden": 4, "epochs": 2, "batch_size": 20, "held_out": 0.1, "dtype": torch.float32}
    return distill.train(corpus, out=out, **(settings | options))


def stopped(corpus: distill.Corpus, out: Path, **options: object) -> None:
    """A training that is stopped after its first epoch."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        real = checkpoint.save
        patch.setattr(checkpoint, "save", lambda *given: (real(*given), stop()))
        with pytest.raises(KeyboardInterrupt):
            fit(corpus, out, **options)
    assert list(out.glob("checkpoint-*"))


# ---------------------------------------------------------------- one process


def test_a_folder_in_use_is_refused_by_name(corpus: distill.Corpus, tmp_path: Path) -> None:
    lm = tt.CircuitLM(source(), eos_token_id=EOS)
    jobs = [
        lambda: fit(corpus, tmp_path),
        lambda: distill.sample(lm, tmp_path, 4, 3, [[1]]),
        lambda: locked(tmp_path).__enter__(),
    ]
    with locked(tmp_path):
        for job in jobs:
            with pytest.raises(FolderInUse, match=f"process {os.getpid()} on .*{tmp_path}/.lock"):
                job()
        assert [path.name for path in tmp_path.iterdir()] == [".lock"]
    assert not list(tmp_path.iterdir())
    fit(corpus, tmp_path)
    assert issubclass(FolderInUse, StorageError)


def test_a_lock_goes_with_its_process(tmp_path: Path) -> None:
    """Two processes with one folder: the second says which the first is, and spoils nothing; killed, the first blocks nobody."""
    gate = Gate((tmp_path / "shard-00000.safetensors").exists)
    first = start(draw, tmp_path, gate=gate)
    assert gate.arrived.poll(HANGS)
    with pytest.raises(FolderInUse, match=f"process {first.pid} "):
        draw(tmp_path)
    os.kill(first.pid, signal.SIGKILL)
    assert finish(first) == [-signal.SIGKILL]
    assert len(draw(tmp_path)) == 610
    assert not list(tmp_path.glob(".*"))


def test_where_there_are_no_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(run_folder, "fcntl", None)
    with caplog.at_level(logging.WARNING), locked(tmp_path):
        pass
    assert "cannot be locked" in caplog.text


# ---------------------------------------------------------------- one run


def test_another_run_is_refused_by_name(corpus: distill.Corpus, tmp_path: Path) -> None:
    tokens = corpus.tokens.clone()
    tokens[3, 0] = 1 + tokens[3, 0] % 3
    other = distill.Corpus.of(tokens, 5, EOS)
    starts = [tt.HMM.random(4, 5, seed=seed) for seed in (1, 2)]
    for name, make in (("stopped", stopped), ("finished", fit)):
        out = tmp_path / name
        make(corpus, out, initial=starts[0])
        before = {path.name: path.read_bytes() for path in out.iterdir()}
        for given, options, said in (
            (other, {}, rf"corpus was {corpus.digest}, is {other.digest}"),
            (corpus, {"initial": starts[1]}, r"start was HMM \w+, is HMM \w+"),
            (corpus, {"initial": None}, r"start was HMM \w+, is random"),
            (corpus, {"initial": lambda: starts[0], "initial_name": "clusters"}, "is clusters"),
            (corpus, {"hidden": 6, "initial": tt.HMM.random(6, 5)}, "hidden was 4, is 6"),
            (corpus, {"floor": 0.1}, r"floor was 0.001, is 0.1"),
            (corpus, {"dtype": torch.float16}, r"dtype was float32, is float16"),
        ):
            with pytest.raises(FormatError, match=said) as error:
                fit(given, out, **({"initial": starts[0]} | options))
            assert "--overwrite" in str(error.value)
        assert {path.name: path.read_bytes() for path in out.iterdir()} == before
        kept = fit(corpus, out, initial=starts[0])
        replaced = fit(other, out, overwrite=True, hidden=6)
        assert (kept.hidden, replaced.hidden, tt.HMM.from_pretrained(out).hidden) == (4, 6, 6)


def test_a_stopped_replacement_goes_on(corpus: distill.Corpus, tmp_path: Path) -> None:
    fit(corpus, tmp_path, seed=1)
    stopped(corpus, tmp_path, overwrite=True)
    whole = fit(corpus, tmp_path / "whole")
    torch.testing.assert_close(fit(corpus, tmp_path).emission_probs, whole.emission_probs, rtol=0, atol=1e-7)
    assert len((tmp_path / "log.jsonl").read_text().splitlines()) == 4


def test_an_hmm_from_elsewhere_is_kept(corpus: distill.Corpus, tmp_path: Path) -> None:
    tt.HMM.random(3, 5).save_pretrained(tmp_path)
    with pytest.raises(FormatError, match="holds an HMM already"):
        fit(corpus, tmp_path)
    assert fit(corpus, tmp_path, overwrite=True).hidden == 4
    tt.HMM.random(4, 5).save_pretrained(tmp_path)  # over the HMM of the run: it is not taken for it
    with pytest.raises(FormatError, match="holds an HMM already"):
        fit(corpus, tmp_path)


def test_records_that_say_nothing(corpus: distill.Corpus, tmp_path: Path) -> None:
    for text in (
        "",
        "{}",
        '{"format": "x"}',
        '{"format": "tractile-training-1", "settings": 3, "finished": 1}',
    ):
        (tmp_path / "training.json").write_text(text)
        with pytest.raises(FormatError, match=r"training\.json"):
            fit(corpus, tmp_path)


def test_differences() -> None:
    said = "b was 2, is 3; c was not recorded, is 4"
    assert differences({"a": 1, "b": 2}, {"a": 1, "b": 3, "c": 4}) == said


def test_a_corpus_says_which_settings_differ(tmp_path: Path) -> None:
    lm = tt.CircuitLM(source(), eos_token_id=EOS)
    distill.sample(lm, tmp_path, 4, 3, [[1]])
    with pytest.raises(FormatError, match="seed was 0, is 2; num_sequences was 4, is 5"):
        distill.sample(lm, tmp_path, 5, 3, [[1]], seed=2)


def test_digests_of_corpora(corpus: distill.Corpus, tmp_path: Path) -> None:
    drawn = draw(tmp_path)
    assert drawn.digest == distill.Corpus.load(tmp_path).digest
    some = [corpus.select(torch.arange(5)), corpus.select(torch.arange(1, 6)), corpus, drawn]
    assert len({one.digest for one in some}) == 4


# ---------------------------------------------------------------- damage


def test_a_flipped_bit_of_a_checkpoint_is_found(corpus: distill.Corpus, tmp_path: Path) -> None:
    """In the parameters, and in the record, which has the step."""
    stopped(corpus, tmp_path)
    (parameters,), rng = tmp_path.glob("checkpoint-*"), random.Random(0)
    for file in (parameters, tmp_path / checkpoint.RECORD):
        whole = file.read_bytes()
        digit = whole.find(b'"step": ') + 8
        for at in [digit, *rng.sample(range(1, len(whole) - 1), 30)]:
            file.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << rng.randrange(8))]) + whole[at + 1 :])
            if file == parameters or rewritten(whole) != rewritten(file.read_bytes()):
                with pytest.raises(FormatError, match=file.name):
                    fit(corpus, tmp_path)
        file.write_bytes(whole)
    fit(corpus, tmp_path)


def rewritten(content: bytes) -> object:
    """What a JSON file says; blanks between are nothing."""
    try:
        return json.loads(content)
    except ValueError:
        return None


def test_a_flipped_bit_of_an_hmm_is_found(tmp_path: Path) -> None:
    tt.HMM.random(3, 5).save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    whole = file.read_bytes()
    for at in (3, 20, len(whole) - 2):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        for read in (tt.HMM.from_pretrained, tt.load):
            with pytest.raises(FormatError, match=r"checksum is wrong|not a saved model"):
                read(tmp_path)


@pytest.mark.parametrize("name", ["copying", "context"])
def test_a_flipped_bit_beside_an_hmm_is_found(tmp_path: Path, name: str) -> None:
    hmm = tt.HMM.random(3, 5)
    ones = {"begin": 0.5, "enter": torch.full((3,), 0.5), "stay": torch.full((5,), 0.5)}
    ones |= {"start": torch.ones(5), "follow": 1.0, "usage": torch.ones(3)}
    copying = guides.Copying(hmm, **{key: torch.as_tensor(value) for key, value in ones.items()}, recent=7)
    head = guides.ContextHead(torch.ones(3, 2), torch.zeros(3), "of a vocabulary")
    part = {"copying": copying, "context": head}[name]
    part.save_pretrained(tmp_path)
    again = type(part).from_pretrained(tmp_path)
    assert name == "context" or again.recent == 7
    assert name == "copying" or again.vocabulary_fingerprint == "of a vocabulary"
    file = tmp_path / f"{name}.safetensors"
    whole = file.read_bytes()
    for at in (3, whole.index(b"sha256") + 20, whole.index(b"header") + 15, len(whole) - 2):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(FormatError, match=file.name):
            type(part).from_pretrained(tmp_path)


def test_a_full_disk_is_said_wherever_something_is_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hmm = tt.HMM.random(3, 5)
    fa = tt.Automaton.from_edges([(0, 1, 0)], 0, [0], 5)
    saves = {"hmm": hmm.save_pretrained, "model": lambda path: tt.save(hmm * fa, path)}
    for name, save in saves.items():
        save(tmp_path / name)
        before = {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(StorageError, match="No space left on device"):
                save(tmp_path / name)
        assert {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} == before
        (tmp_path / f"{name}-file").write_text("")
        with pytest.raises(StorageError, match="directory"):
            save(tmp_path / f"{name}-file")


def full(_: int) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no umask")
@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_permissions_follow_the_umask(corpus: distill.Corpus, tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        fit(corpus, tmp_path)
        stopped(corpus, tmp_path / "more")
    finally:
        os.umask(before)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 6
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {mode}


def test_parts_of_others_are_kept(tmp_path: Path) -> None:
    """What a program that is gone has left of a file is removed; what another one is writing is not."""
    here, other = socket.gethostname(), "another-machine"
    gone = start(lambda: None)
    gone.join()
    parts = {
        f".a.{here}.{gone.pid}.0.part": False,
        f".a.{here}.{os.getppid()}.0.part": True,
        f".a.{other}.{gone.pid}.0.part": True,
        f".a.old-{other}.1.0.part": False,
        f".a.ahead-{other}.1.0.part": False,
        f".ab.{here}.{gone.pid}.0.part": True,  # of another file
        ".a.part": True,
    }
    for name in parts:
        (tmp_path / name).write_text("part")
        for word, days in (("old", -2), ("ahead", 2)):
            if word in name:  # of a machine whose name does not come again; of one whose clock was wrong
                os.utime(tmp_path / name, (time.time() + days * 86400,) * 2)
    write_atomically(tmp_path / "a", b"whole")
    assert {name: (tmp_path / name).exists() for name in parts} == parts
    assert (tmp_path / "a").read_bytes() == b"whole"


# ---------------------------------------------------------------- the command


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("drawn")
    made = run("distill", "sample", "--num-sequences", 6, "--max-new-tokens", 3, "--out", folder)
    assert made.exit_code == 0
    return folder


def test_the_command_overwrites_only_if_told(drawn: Path, tmp_path: Path) -> None:
    train = [
        "distill", "train", "--corpus", drawn, "--epochs", 1, "--out", tmp_path, "--held-out", 0, "--hidden",
    ]  # fmt: skip
    assert run(*train, 3).exit_code == 0
    assert_refused(run(*train, 4), 1, "hidden was 3, is 4")
    assert run(*train, 4, "--overwrite").exit_code == 0
    assert tt.HMM.from_pretrained(tmp_path).hidden == 4
    with locked(tmp_path):
        assert_refused(run(*train, 4), 1, f"process {os.getpid()}")


def test_stopping_says_where_and_that_the_same_command_goes_on(
    drawn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = ["train", "--corpus", drawn, "--hidden", 3, "--batch-size", 2, "--epochs", 2, "--held-out", 0]
    sample = ["sample", "--num-sequences", 6, "--max-new-tokens", 3, "--shard-size", 2]
    commands = {"train": (train, "step 3"), "sample": (sample, "after 1 shard;")}
    modules = {"train": checkpoint, "sample": sys.modules["tractile.distill.drawing"]}
    names = {"train": "save", "sample": "write_shard"}
    for name, (command, where) in commands.items():
        write = getattr(modules[name], names[name])

        def stop(*given: object, write: object = write) -> None:
            write(*given)
            raise KeyboardInterrupt

        out = tmp_path / name
        with monkeypatch.context() as patch:
            patch.setattr(modules[name], names[name], stop)
            assert_refused(
                run("distill", *command, "--out", out), 130, where, str(out), "the same command goes on"
            )
        assert run("distill", *command, "--out", out).exit_code == 0


def test_drawing_with_vllm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The flag starts an engine for the model and draws with it; without vLLM it says what to install."""
    arguments = ["distill", "sample", "--num-sequences", 5, "--max-new-tokens", 3, "--vllm", "--out"]
    monkeypatch.setitem(sys.modules, "vllm", None)
    assert_refused(run(*arguments, tmp_path / "a"), 1, "pip install vllm")
    assert_refused(run(*arguments, tmp_path / "a", "--temperature", 0.5), 2, "temperature 1")
    tokenizer, asked = tt.embedded.load_lm()[1], []

    class LLM:
        def __init__(self, model: str, seed: int) -> None:
            asked.append((model, seed))

        def get_tokenizer(self) -> object:
            return tokenizer

        def generate(self, prompts: list, settings: list, use_tqdm: bool) -> list:
            ids = [5, 6, tokenizer.eos_token_id]
            logprobs = [{i: SimpleNamespace(logprob=-1.0)} for i in ids]
            text = SimpleNamespace(token_ids=ids, logprobs=logprobs, finish_reason="stop")
            return [SimpleNamespace(outputs=[text]) for _ in prompts]

    module = ModuleType("vllm")
    module.LLM, module.SamplingParams = LLM, lambda **given: SimpleNamespace(**given)
    monkeypatch.setitem(sys.modules, "vllm", module)
    found = run(*arguments, tmp_path / "b", "--seed", 3)
    assert found.exit_code == 0, found.stderr
    assert asked == [(str(tt.embedded.LM_PATH), 3)]
    corpus = distill.Corpus.load(tmp_path / "b")
    assert corpus.tokens.tolist() == [[5, 6, tokenizer.eos_token_id]] * 5
    assert corpus.vocabulary_fingerprint == tt.embedded.load_hmm().vocabulary_fingerprint
