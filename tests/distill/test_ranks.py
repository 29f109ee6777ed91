"""Several processes make what one makes, up to rounding; one that is lost is named, and the others stop."""

import json
import math
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path

import pytest
import torch
from corpora import EOS, content, draw, finish, fit, has_checkpoint, kill_when, source, start, together
from counting import HANGS

import tractile as tt
from tractile import distill
from tractile.distill import checkpoint, heartbeat
from tractile.distill.distributed import Ranks, ranks
from tractile.distill.em import expected_counts, log_likelihood
from tractile.distill.progress import read_log
from tractile.distill.run_folder import locked
from tractile.distill.shard_files import read_part_of_hmm
from tractile.distill.sharding import ShardedHMM
from tractile.distill.start import random_part
from tractile.errors import EvidenceError, FolderInUse, FormatError, ShapeError

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
FEW_MESSAGES = {"batch_size": 150, "chunk_size": 75}  # ranks that share states talk at every token of a chunk


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    draw(folder)
    return folder


def assert_close(one: Path, other: Path) -> None:
    a, b = (tt.HMM.from_pretrained(path) for path in (one, other))
    for x, y in zip(a.parameters(), b.parameters(), strict=True):
        torch.testing.assert_close(x, y, rtol=0, atol=1e-6)


# ---------------------------------------------------------------- the same result


def without_a_whole(corpus: Path, out: Path, *options: object, **more: object) -> None:
    """Training by shards that fails if a rank makes a whole HMM, or pickles anything."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("whole, or pickled")

    tt.HMM.__init__ = torch.distributed.broadcast_object_list = refuse
    fit(corpus, out, *options, shard=True, **more)


@pytest.mark.long
@pytest.mark.parametrize("shard", [False, True])
@pytest.mark.parametrize("transition", ["dense", "monarch"])
def test_two_ranks_learn_what_one_does(corpus: Path, tmp_path: Path, transition: str, shard: bool) -> None:
    options = FEW_MESSAGES if shard else {}
    fit(corpus, tmp_path / "one", transition, shard=shard, **options)
    job = partial(without_a_whole if shard else fit, **options)
    assert finish(*together(job, corpus, tmp_path / "two", transition)) == [0, 0]
    logs = [read_log(tmp_path / name / "log.jsonl")[-1] for name in ("one", "two")]
    for figure in ("held_out", "nats_per_token"):
        assert logs[0][figure] == pytest.approx(logs[1][figure], abs=1e-6)
    assert_close(tmp_path / "one", tmp_path / "two")
    assert "| hidden states | 6, " in (tmp_path / "two" / "README.md").read_text()


def test_states_that_ranks_share_are_those_of_an_hmm(corpus: Path, tmp_path: Path) -> None:
    """By parts: a random start, a saved HMM, a checkpoint of four ranks that two read."""
    data = distill.Corpus.load(corpus)
    teams = {size: [Ranks(i, size) for i in range(size)] for size in (1, 2, 4)}
    hmm = distill.random_start(data, 8, seed=3)
    assert not torch.allclose(hmm.emission_probs, distill.random_start(data, 8, seed=4).emission_probs)
    for rank, team in enumerate(teams[2]):
        part = random_part(data, 8, "dense", 3, team)
        drawn = random_part(data, 8, "dense", 3, Ranks()).initial[4 * rank : 4 * rank + 4]
        torch.testing.assert_close(part.initial * drawn.sum(), drawn)  # each normalised by what it has
        ends = random_part(data, 2, "dense", 3, team).emission[:, EOS]
        assert ends.tolist() == [float(rank)]  # one state a rank: the last is the end
    hmm.save_pretrained(tmp_path)
    (whole,) = (read_part_of_hmm(tmp_path, None, team)[0] for team in teams[1])
    assert torch.equal(whole.emission, hmm.emission_probs)
    files = [tmp_path / f"checkpoint-0000001-{rank + 1}-of-4.safetensors" for rank in range(4)]
    parts = [read_part_of_hmm(tmp_path, None, team)[0] for team in teams[4]]
    sums = [checkpoint.write_part(file, part) for file, part in zip(files, parts, strict=True)]
    for rank, team in enumerate(teams[2]):
        found = checkpoint.load(tmp_path, checkpoint.Record({}, step=1, files=sums), team)
        states = slice(4 * rank, 4 * rank + 4)
        assert torch.equal(found.emission, hmm.emission_probs[states])
        assert torch.equal(found.weights[0], hmm.transition.parameters()[0][:, states])
        assert torch.equal(found.initial, hmm.initial_probs[states])


def test_states_that_cannot_be_dealt_out_evenly(corpus: Path, tmp_path: Path) -> None:
    tt.HMM.random(3, 5).save_pretrained(tmp_path)
    for begin in (
        lambda: random_part(distill.Corpus.load(corpus), 3, "dense", 0, Ranks(0, 2)),
        lambda: read_part_of_hmm(tmp_path, None, Ranks(0, 2)),
    ):
        with pytest.raises(ShapeError, match=r"3 blocks of hidden states .*cannot be dealt out to 2 ranks"):
            begin()
    with pytest.raises(ShapeError, match="has 3 states, dense, not 4, dense; say so, or grow"):
        distill.train_sharded(corpus, 4, tmp_path / "out", initial=tmp_path)


def test_what_is_no_hmm_to_begin_with(tmp_path: Path) -> None:
    hmm = tt.HMM.random(4, 5)
    hmm.save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text("{}")  # of a version without fingerprints
    part, vocabulary = read_part_of_hmm(tmp_path, None, Ranks(1, 2))
    assert torch.equal(part.emission, hmm.emission_probs[2:])
    assert vocabulary is None
    for config, why in (("[]", "not a saved HMM"), ('{"axes": [1, 0]}', "does not hold the parameters")):
        (tmp_path / "config.json").write_text(config)
        with pytest.raises(FormatError, match=why):
            read_part_of_hmm(tmp_path, None, Ranks())


def out_of_range(_: Path) -> None:
    """State 1 is ``rare``^20 times less probable before the last token, which it alone explains, with probability ``last``."""
    tokens, half = torch.tensor([[0] * 20 + [1]]), torch.tensor([0.5])
    with ranks() as team:
        single, double = torch.float32, torch.float64
        for dtype, rare, last in ((single, 1e-5, 1), (double, 1e-20, 1), (double, 1e-14, 1e-40)):
            emission = torch.tensor([[1.0, 0.0], [rare, last]], dtype=dtype)
            columns = torch.eye(2, dtype=dtype)[:, [team.rank]]
            part = ShardedHMM(half.to(dtype), (columns,), None, emission[[team.rank]], team)
            if dtype is single:  # float64 holds it
                found = expected_counts(part, tokens)
                assert found.emission.tolist() == [[20.0 * team.rank, 1.0 * team.rank]]
                assert float(found.log_likelihood) == pytest.approx(math.log(0.5) + 20 * math.log(rare))
                continue
            for count in (expected_counts, log_likelihood):
                with pytest.raises(EvidenceError, match=r"in sequence 0 .* leave the sequence out"):
                    count(part, tokens)


def test_ranks_that_share_states_refuse_what_float64_does_not_hold(tmp_path: Path) -> None:
    assert finish(*together(out_of_range, tmp_path)) == [0, 0]


def evaluated(corpus: Path, out: Path) -> None:
    """Make a corpus of texts and evaluate an HMM on another, in several ranks or one."""
    _, tokenizer = tt.embedded.load_lm()
    texts = ["Once upon a time there was a dog. " * k for k in (0, 1, 3, 2)] * 5
    distill.from_text(texts, tokenizer, out, max_new_tokens=7, shard_size=4)
    data = distill.Corpus.load(corpus)
    found = [asdict(distill.evaluate(tt.HMM.random(3, 5), data, batch_size=100))]
    dog = tt.Automaton.from_edges([(0, range(5), 0), (0, 3, 1), (1, range(5), 1)], 0, [1], 5)
    lm = tt.CircuitLM(source(), eos_token_id=EOS)
    worth = distill.guidance(
        lm, [[], [0], [1]], dog, {"gcd": None, "pgcd": tt.HMM.random(3, 5)}, 6, particles=4
    )
    found += [asdict(each) for each in worth.values()]
    with ranks() as team:
        if team.rank == 0:
            (out / "found.json").write_text(json.dumps(found))


def test_texts_are_cut_and_hmms_evaluated_in_several_ranks(corpus: Path, tmp_path: Path) -> None:
    evaluated(corpus, tmp_path / "one")
    assert finish(*together(evaluated, corpus, tmp_path / "two", size=3)) == [0] * 3
    one, two = (content(tmp_path / name) for name in ("one", "two"))
    alone, shared = (json.loads(files.pop("found.json")) for files in (one, two))
    assert one == two
    assert len(one) > 5
    for a, b in zip(alone, shared, strict=True):
        for name, value in a.items():
            assert b[name] == pytest.approx(value, abs=1e-9)


def test_ranks_and_shares_sample_the_same_corpus(corpus: Path, tmp_path: Path) -> None:
    there = tmp_path / "ranks"
    assert kill_when(lambda: len(list(there.glob("shard*"))) >= 3, draw, there, size=2) != [0]
    assert len(list(there.glob("shard*"))) < len(list(corpus.glob("shard*")))
    assert finish(*together(draw, there)) == [0, 0]
    assert content(there) == content(corpus)
    shares = [start(draw_share, tmp_path / "shares", share) for share in range(3)]
    assert finish(*shares) == [0, 0, 0]
    assert content(tmp_path / "shares") == content(corpus)


def draw_share(out: Path, share: int) -> int:
    lm = tt.CircuitLM(source(), eos_token_id=EOS)
    return distill.sample_share(lm, out, 610, 9, [""], share=share, of=3, shard_size=16, batch_size=8)


def test_a_share_is_drawn_once_and_not_beside_the_whole(tmp_path: Path) -> None:
    for name, refused in (("1 of 3", True), ("2 of 3", False), ("", True)):
        with locked(tmp_path, name):
            if refused:
                with pytest.raises(FolderInUse, match=f"process {os.getpid()}"):
                    draw_share(tmp_path, 1)
                with pytest.raises(FolderInUse, match=f"process {os.getpid()}"):
                    draw(tmp_path)
            else:
                assert draw_share(tmp_path, 1) == 26  # of 39 shards
    assert not list(tmp_path.glob(".*"))
    with pytest.raises(ShapeError, match="0 to 2, not 3 of 3"):
        draw_share(tmp_path, 3)


# ---------------------------------------------------------------- a rank that is lost


@pytest.mark.long
@pytest.mark.parametrize("shard", [False, True])
def test_a_rank_that_is_killed_stops_the_others_and_all_go_on(
    corpus: Path, tmp_path: Path, shard: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    """The other names it, be it the one that serves the store or not; three ranks go on with what two have begun."""
    options, out, lost = FEW_MESSAGES if shard else {}, tmp_path / "two", 1 if shard else 0
    job = partial(fit, shard=shard, **options)
    codes = kill_when(partial(has_checkpoint, out), job, corpus, out, size=2, which=lost)
    assert codes == [1]
    said = rf"RankLost: rank {lost} \(process \d+ on .*\).* give the same command again"
    assert re.search(said, capfd.readouterr().err)
    assert not (out / "config.json").exists()
    assert finish(*together(job, corpus, out, size=3)) == [0, 0, 0]
    assert not list(out.glob(".*"))  # nor does what the lost rank was writing stay
    job(corpus, tmp_path / "one")
    assert_close(tmp_path / "one", out)


def impatient(job: Callable[..., object], *args: object) -> None:
    heartbeat.SILENCE = 3.0
    job(*args)


def test_a_rank_that_stands_still_ends_the_job(
    corpus: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its connections stay open, so that no operation of the others would ever return."""
    there = partial(has_checkpoint, tmp_path)
    assert kill_when(there, impatient, fit, corpus, tmp_path, size=2, by=signal.SIGSTOP) == [1]
    assert "tractile: rank 0: rank 1 (process" in capfd.readouterr().err


def apart(corpus: Path, out: Path) -> None:
    """A rank that was started with other arguments than rank 0."""
    rank = int(os.environ["RANK"])
    if out.name == "hmm":
        fit(corpus, out, pseudocount=0.5 + rank, **FEW_MESSAGES)
    else:
        draw(out, seed=rank)


@pytest.mark.parametrize("name", ["hmm", "corpus"])
def test_ranks_with_other_settings_are_refused(
    corpus: Path, tmp_path: Path, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert finish(*together(apart, corpus, tmp_path / name)) == [1, 1]
    said = {"hmm": "pseudocount was 0.5, is 1.5", "corpus": "seed was 0, is 1"}[name]
    error = f"rank 1 has other settings than rank 0: {said}; start all ranks"
    assert capfd.readouterr().err.count(error) == 2
    assert not (tmp_path / name / "config.json").exists()


def test_what_rank_0_refuses_is_said_by_all(
    corpus: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    fit(corpus, tmp_path)
    assert finish(*together(partial(fit, pseudocount=0.5), corpus, tmp_path)) == [1, 1]
    assert capfd.readouterr().err.count("FormatError: ") == 2


# ---------------------------------------------------------------- torchrun


@pytest.mark.long
def test_two_machines_under_torchrun(tmp_path: Path) -> None:
    """Two agents with a rendezvous, on the loopback: a corpus, an HMM of shards and its evaluation, by the command."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    out = tmp_path / "hmm"
    commands = [
        ["sample", "--num-sequences", "60", "--max-new-tokens", "6", "--shard-size", "20", "--out", str(tmp_path / "corpus")],
        ["train", "--shard", "--corpus", str(tmp_path / "corpus"), "--hidden", "8", "--epochs", "1", "--out", str(out)],
        ["eval", "--json", "--hmm", str(out), "--corpus", str(tmp_path / "corpus")],
    ]  # fmt: skip
    for command in commands:
        agent = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--rdzv-backend", "c10d"]
        agent += f"--rdzv-endpoint 127.0.0.1:{port} --rdzv-id {command[0]} --local-addr 127.0.0.1".split()
        agent += ["--no-python", sys.executable, "-m", "tractile", "distill", *command]
        agents = [
            subprocess.Popen(
                agent, stdout=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
            )
            for _ in range(2)
        ]
        try:
            said = [each.communicate(timeout=HANGS)[0] for each in agents]
        finally:
            for each in agents:
                each.kill()
        assert [each.returncode for each in agents] == [0, 0]
    assert tt.HMM.from_pretrained(out).hidden == 8
    (line,) = [text for text in said if text]  # rank 0 speaks
    assert json.loads(line)["sequences"] == 60
