"""An HMM that copies from its prompt, against the sum over all ways to copy."""

import itertools
import math

import pytest
import torch
from commands import assert_refused, run
from safetensors.torch import save_file

import tractile as tt
from tractile import distill
from tractile.distill.start import has_end_state, with_end_state
from tractile_bench import guides
from tractile_bench.guides.copying import FILE, places_of
from tractile_bench.guides.copying_fit import log_probs

V, H, EOS = 6, 3, 1


def copying(recent=2, seed=0, end=True):
    """Random numbers throughout; with ``end`` the last state is the end, which copies nothing."""
    g = torch.Generator().manual_seed(seed)
    hmm = tt.HMM.random(H, V, seed=seed)
    hmm = with_end_state(hmm, EOS) if end else hmm

    def rand(*shape):
        return torch.rand(shape, generator=g)

    enter, usage = rand(H), 0.1 + rand(H)
    if end:
        enter[-1] = usage[-1] = 0
    return guides.Copying(hmm, rand(), enter, rand(V), 0.1 + rand(V), 5 * rand(), usage, recent)


def by_hand(c, prompt, text):
    """p(text | prompt), adding up every sequence of states of the HMM and places of the prompt, by the words of the module."""
    first = max(len(prompt) - c.recent, 0)
    name = [("early", v) if i < first else i for i, v in enumerate(prompt)]
    states = list(dict.fromkeys(name))
    token = {name[i]: v for i, v in enumerate(prompt)}
    times = {s: name.count(s) for s in states}
    pairs = list(itertools.pairwise(name))
    n = {(i, j): pairs.count((i, j)) for i in states for j in states}
    pi, a, b = c.hmm.initial_probs, c.hmm.transition.dense(), c.hmm.emission_probs

    def entry(v, i):
        """Where copying begins after the token v; None: at the beginning of the text."""

        def weight(i):
            follow = sum(n[j, i] for j in states if v is not None and token[j] == v)
            return float(c.start[token[i]]) * (times[i] + float(c.follow) * follow)

        return weight(i) / sum(map(weight, states))

    def from_own(z, to):
        if isinstance(to, tuple):
            return float((1 - c.enter[z]) * a[z, to[1]])
        return float(c.enter[z]) * sum(float(b[z, v]) * entry(v, to[0]) for v in range(V))

    def step(s, to):
        if isinstance(s, tuple):
            return from_own(s[1], to)
        i = s[0]
        after = sum(n[i, j] for j in states)
        stay = float(c.stay[token[i]]) if after else 0.0
        on = 0.0 if isinstance(to, tuple) or not after else n[i, to[0]] / after
        says = c.usage * b[:, token[i]]
        says = says / says.sum()
        return stay * on + (1 - stay) * sum(float(says[z]) * from_own(z, to) for z in range(H))

    every = [("own", z) for z in range(H)] + [[i] for i in states]

    def emits(s, v):
        return float(b[s[1], v]) if isinstance(s, tuple) else float(token[s[0]] == v)

    total = 0.0
    for path in itertools.product(every, repeat=len(text)):
        s = path[0]
        p = float((1 - c.begin) * pi[s[1]]) if isinstance(s, tuple) else float(c.begin) * entry(None, s[0])
        for t, v in enumerate(text):
            p *= emits(path[t], v)
            if p == 0:
                break
            p *= step(path[t], path[t + 1]) if t + 1 < len(text) else 1
        total += p
    return total


@pytest.mark.parametrize("recent", [0, 2, 9])
@pytest.mark.parametrize("end", [True, False])
def test_what_is_read_is_the_sum_over_all_ways_to_copy(recent, end):
    c = copying(recent, seed=recent, end=end)
    prompt = [2, 3, 2, 3, 4]
    hmm = c.read(prompt)
    assert hmm.hidden == H + {0: 3, 2: 4, 9: 5}[recent]
    assert has_end_state(hmm, EOS) is end
    for text in ([2, 3, 4], [3, 3, 2], [5, 4, 1], [2, 3, 2]):
        expected = torch.tensor([by_hand(c, prompt, text)], dtype=torch.float64).log()
        torch.testing.assert_close(tt.log_marginal(hmm, torch.tensor([text])), expected, atol=1e-5, rtol=1e-5)
    assert abs(tt.partition(hmm, n=4).item()) < 1e-5


def test_fitting_counts_what_is_read():
    """The likelihood that is fitted, of prompts of several lengths at once, is that of the HMMs that are read."""
    c = copying(recent=2, seed=4)
    prompts, text = [[2, 3, 2, 3, 4], [5, 5], [3]], torch.tensor([[2, 3, 4, 1], [5, 3, 5, 5], [3, 3, 2, 1]])
    found = log_probs(c, places_of(prompts, 2), text, c.hmm.initial_probs, c.hmm.transition.dense())
    expected = torch.cat([tt.log_marginal(c.read(p), x[None]) for p, x in zip(prompts, text, strict=True)])
    torch.testing.assert_close(found.double(), expected, atol=1e-5, rtol=1e-5)


def test_without_anything_to_copy_it_is_the_hmm():
    c = copying()
    for prompt in ([], [EOS], [EOS, EOS]):
        assert c.read(prompt) is c.hmm
    assert c.read([EOS, 2, EOS, 3]).hidden == H + 2


def repeated(count=300, seed=0):
    """Texts that copy two tokens of their prompt, after a word of their own."""
    g = torch.Generator().manual_seed(seed)
    prompts = [torch.randperm(20, generator=g)[:6].add(10).tolist() for _ in range(count)]
    place = torch.randint(5, (count,), generator=g).tolist()
    rows = [[4, *p[i : i + 2], 5, EOS] for p, i in zip(prompts, place, strict=True)]
    return distill.Corpus.of(torch.tensor(rows), 30, EOS, prompts)


def test_copying_is_learnt():
    """Where copying begins costs log 5 and how long it goes on 2 log 2; an HMM that has not read the prompt pays 2 log 20."""
    corpus, held_out = repeated(600), repeated(100, seed=1)
    bigrams = guides.ngram(corpus, 2, 40)
    c = guides.fit_copying(bigrams, corpus, epochs=6, batch_size=32)
    nats = guides.copying_nats(c, held_out)
    assert (
        (math.log(5) + 2 * math.log(2)) / 5 - 0.05
        < nats
        < 0.7
        < 1
        < distill.evaluate(bigrams, held_out).nats_per_token
    )
    read = [
        tt.log_marginal(c.read(held_out.manifest.prompts[i]), held_out.tokens[i : i + 1]) for i in range(20)
    ]
    part = held_out.select(torch.arange(20))
    assert guides.copying_nats(c, part) == pytest.approx(
        -float(torch.cat(read).sum()) / part.num_tokens, rel=1e-4
    )
    assert has_end_state(c.hmm, EOS)
    assert has_end_state(c.read([12, 13]), EOS)


def test_it_comes_back_from_disk(tmp_path):
    c = copying(recent=3)
    assert not guides.Copying.is_in(tmp_path)
    c.save_pretrained(tmp_path)
    assert guides.Copying.is_in(tmp_path)
    text = torch.tensor([[2, 4, 2, 1]])
    again = guides.Copying.from_pretrained(tmp_path)
    assert again.recent == 3
    torch.testing.assert_close(
        tt.log_marginal(again.read([2, 4, 2]), text), tt.log_marginal(c.read([2, 4, 2]), text)
    )
    save_file({"enter": torch.ones(2)}, tmp_path / FILE)
    with pytest.raises(tt.errors.FormatError, match=FILE):
        guides.Copying.from_pretrained(tmp_path)


def test_from_the_command_line(tmp_path):
    """Sampling after a prompt, counting, copying, generating: the prompt's words are what the HMM says first."""
    (tmp_path / "prompts").write_text("Tom has a dog.\nAnn has a cat.\n")
    sample = ["--prompts", tmp_path / "prompts", "--num-sequences", 40, "--max-new-tokens", 6]
    assert run("distill", "sample", *sample, "--out", tmp_path / "corpus").exit_code == 0
    corpus = distill.Corpus.load(tmp_path / "corpus")
    guides.ngram(corpus, 2, 30).save_pretrained(tmp_path / "hmm")
    fit = [
        "bench", "copying", "--corpus", tmp_path / "corpus", "--out", tmp_path / "out", "--hmm", tmp_path / "hmm",
    ]  # fmt: skip
    found = run(*fit, "--epochs", 2, "--batch-size", 8, "--recent", 3)
    assert found.exit_code == 0, found.stderr
    assert "nats per token" in found.stdout
    copying, tokenizer = guides.Copying.from_pretrained(tmp_path / "out"), tt.embedded.load_lm()[1]
    read = copying.read("Ann has a pig.", tokenizer)
    ids = [i for i in tokenizer("Ann has a pig.").input_ids if i not in tokenizer.all_special_ids]
    assert read.hidden == copying.hmm.hidden + len(set(ids[:-3])) + 3
    generate = [
        "generate", "--prompt", "Ann has a pig.", "--regex", ".*", "--max-new-tokens", 3, "--particles", 2,
    ]  # fmt: skip
    assert run(*generate, "--hmm", tmp_path / "out", "--json").exit_code == 0
    with pytest.raises(tt.errors.ShapeError, match="tokenizer"):
        copying.read("Ann has a pig.")
    tt.HMM.random(4, len(tokenizer), "monarch").save_pretrained(tmp_path / "monarch")
    assert_refused(run(*fit[:-1], tmp_path / "monarch"), 1, "dense")


def test_what_makes_no_sense_is_refused():
    c, corpus = copying(), repeated(20)
    for bad in ([V], [-1]):
        with pytest.raises(tt.errors.VocabularyMismatch, match="beyond the vocabulary"):
            c.read(bad)
    with pytest.raises(tt.errors.ShapeError, match="enter"):
        guides.Copying(c.hmm, c.begin, torch.full((H,), 1.5), c.stay, c.start, c.follow, c.usage)
    with pytest.raises(tt.errors.ShapeError, match="recent"):
        guides.Copying(c.hmm, c.begin, c.enter, c.stay, c.start, c.follow, c.usage, recent=-1)
    with pytest.raises(tt.errors.VocabularyMismatch):
        guides.fit_copying(c.hmm, corpus)
    with pytest.raises(tt.errors.ShapeError, match="dense"):
        guides.fit_copying(tt.HMM.random(4, 30, "monarch"), corpus)
    with pytest.raises(tt.errors.ShapeError, match="epochs"):
        guides.fit_copying(guides.ngram(corpus, 2, 20), corpus, epochs=0)
    text = distill.Corpus.of(corpus.tokens, 30, EOS, ["a prompt"] * 20)
    with pytest.raises(tt.errors.ShapeError, match="tokenizer"):
        guides.fit_copying(guides.ngram(corpus, 2, 20), text)
    with pytest.raises(tt.errors.ShapeError, match="as many prompts"):
        distill.Corpus.of(corpus.tokens, 30, EOS, [[2]])
