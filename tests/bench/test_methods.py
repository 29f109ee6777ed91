"""Every method of the benchmark against enumeration: what it weighs, what it finds satisfied, and its estimate of Z."""

import itertools
import math
from functools import cache, partial

import pytest
import torch

import tractile as tt
from tractile_bench import Example, Task
from tractile_bench.methods import METHODS, PAPERS, named
from tractile_bench.results import Results, read
from tractile_bench.runner import Bench, Settings

PIECES = [b"a", b"b", b"ab", b"c", None]
EOS, BUDGET = 4, 5
VOCAB = tt.Vocabulary(PIECES, eos_token_id=EOS)


@cache
def lm():
    generator = torch.Generator().manual_seed(18)
    rows = {(): torch.randn(5, generator=generator, dtype=torch.float64).log_softmax(0)}
    for token in range(4):
        rows[(token,)] = torch.randn(5, generator=generator, dtype=torch.float64).log_softmax(0)
    return tt.lm.TableLM(rows, EOS, VOCAB)


def hmm():
    return tt.HMM.random(4, 5, seed=1, dtype=torch.float64)


def psi(text):
    """Zero once there is "cc": no continuation mends that."""
    return 0.0 if "cc" in text else 0.5 ** text.count("a")


class Letters(Task):
    """Texts of a and b, with a c before the last letter; the score is the share of a."""

    name, metric, max_new_tokens = "letters", "share", BUDGET
    pattern = "[abc]*c[ab]"

    def __init__(self, data=None, number=1):
        self.number = number

    def examples(self, split="test"):
        yield from (Example(str(i), "", "cb", {}) for i in range(self.number))

    def constraint(self, example):
        return tt.constraints.regex(self.pattern)

    def potential(self, example):
        return tt.inference.smc.FunctionPotential(psi)

    def scores(self, example, text):
        return {"share": text.count("a") / max(1, len(text)), "one": 1.0}


# ------------------------------------------------------------ the truth, by listing all sequences


def spelled(tokens):
    return b"".join(PIECES[t] for t in tokens if t != EOS).decode()


def probability(tokens):
    table, total = lm()._table, 0.0
    for i, token in enumerate(tokens):
        total += float(table[(tokens[i - 1],) if i else ()][token])
    return math.exp(total)


@cache
def language():
    """(tokens, text, in the language) of every sequence that ends within the budget, and of every one that does not."""
    ended, cut = [], []
    for n in range(BUDGET + 1):
        for tokens in itertools.product(range(4), repeat=n):
            if n < BUDGET:
                states = reach((*tokens, EOS))
                ended.append(((*tokens, EOS), spelled(tokens), bool(states)))
            else:
                cut.append((tokens, spelled(tokens), bool(reach(tokens))))
    return ended, cut


@cache
def automaton():
    return tt.constraints.regex(Letters.pattern).compile(VOCAB)


@cache
def reach(tokens):
    if not tokens:
        return set(automaton().start_states)
    return {after for state in reach(tokens[:-1]) for after in automaton().step(state, tokens[-1])}


@cache
def within_budget():
    """Every beginning of a sequence of the language that ends within the budget."""
    whole = [tokens for tokens, _, good in language()[0] if good]
    return {tokens[:n] for tokens in whole for n in range(len(tokens) + 1)}


@cache
def local(tokens, budgeted=False):
    """The probability of a sequence under the local product: the model among the tokens that the constraint allows."""
    table, total = lm()._table, 1.0
    for i, token in enumerate(tokens):
        row = table[(tokens[i - 1],) if i else ()].exp()
        after = [(*tokens[:i], t) for t in range(5)]
        allowed = [t for t in range(5) if (after[t] in within_budget() if budgeted else reach(after[t]))]
        total *= float(row[token] / row[allowed].sum())
    return total


def truth(name):
    """(Z, expected share of a, weight of what satisfies the constraint) that a method tends to with many particles."""
    method = METHODS[name]
    ended, cut = language()
    weigh = (
        probability
        if method.corrected or name == "base-lm"
        else partial(local, budgeted=method.proposal == "gcd")
    )
    final = psi if method.potential else lambda text: 1.0
    if not method.constrained:
        pairs = [(weigh(tokens), text) for tokens, text, _ in [*ended, *cut]]
        inside = tt.constraints.regex(Letters.pattern).accepts
    else:
        pairs = [(weigh(tokens) * final(text), text) for tokens, text, good in ended if good]
        inside = lambda text: True  # noqa: E731
    lost = sum(weigh(tokens) for tokens, _, viable in cut if viable) if method.cut_off else 0.0
    z = sum(w for w, _ in pairs)
    score = sum(w * Letters().scores(None, text)["share"] for w, text in pairs) / (z + lost)
    return z, score, sum(w for w, text in pairs if inside(text)) / (z + lost)


def results(folder, methods, particles, number=1, task=None, **settings):
    """The lines of a run."""
    settings = Settings(methods=methods, particles=particles, max_new_tokens=BUDGET, **settings)
    task = task or Letters(number=number)
    bench = Bench(task, lm(), VOCAB, settings, hmm())
    bench.run(list(task.examples()), Results(folder, {"task": task.name, "metric": task.metric}))
    return read(folder)[1]


@pytest.mark.parametrize("name", list(METHODS))
def test_with_many_particles_a_method_gives_what_it_should(name, tmp_path):
    z, score, satisfied = truth(name)
    lines = results(tmp_path, [name], [1500], draws=3000, wanted=400)
    assert len(lines) == 1
    for line in lines:
        found = line["alive"] if name == "rs" else line["satisfied"]
        assert found == pytest.approx(z if name == "rs" else satisfied, abs=0.05)
        assert line["expected"]["share"] == pytest.approx(score, abs=0.03)
        assert line["expected"]["one"] == pytest.approx(1 - line["cut_off"])
        assert sum(line["weights"]) + line["cut_off"] == pytest.approx(1)
        if METHODS[name].corrected:
            assert line["log_z"] == pytest.approx(math.log(z), abs=0.15)
        else:
            assert line["log_z"] is None


@pytest.mark.long
def test_what_the_guarantee_covers_is_satisfied_always_and_lcd_is_not(tmp_path):
    names = [
        "lcd", "gcd", "pgcd", "pgcd-mixture-prefix", "pgcd-mixture", "gcd-unweighted", "gcd-grammar-only-smc",
    ]  # fmt: skip
    lines = results(tmp_path, names, [1, 4], number=12)
    share = {name: [line["satisfied"] for line in lines if line["method"] == name] for name in names}
    assert min(share["lcd"]) < 1
    for name in names[1:]:
        assert share[name] == pytest.approx([1.0] * 24)


def test_quality_is_the_bound_of_the_paper(tmp_path):
    """One particle of the local product: E[log p(x)Ψ(x)/ℓ(x)] for those that end and that Ψ lets live, weights or none."""
    lines = results(tmp_path, ["sample-rerank", "full-is"], [1], number=100, batch=100)
    ended, _ = language()
    pairs = [
        (local(tokens), math.log(probability(tokens) * psi(text) / local(tokens)))
        for tokens, text, good in ended
        if good and psi(text)
    ]
    expected = sum(w * q for w, q in pairs) / sum(w for w, _ in pairs)
    for name in ("sample-rerank", "full-is"):
        found = [
            line["quality"] for line in lines if line["method"] == name and line.get("quality") is not None
        ]
        assert sum(found) / len(found) == pytest.approx(expected, abs=0.3)
    both = results(tmp_path / "more", ["sample-rerank", "full-is"], [8], number=40, batch=40)
    by_name = {n: [r.get("quality") for r in both if r["method"] == n] for n in ("sample-rerank", "full-is")}
    lived = [pair for pair in zip(*by_name.values(), strict=True) if None not in pair]
    assert len(lived) > 30
    # Both draw the same particles; the weights of full IS are the proper ones.
    unweighted, weighted = (sum(values) / len(lived) for values in zip(*lived, strict=True))
    assert unweighted < weighted < math.log(truth("full-is")[0])


def test_local_decoding_that_does_not_know_the_budget_pays_for_what_is_cut_off():
    assert [name for name, method in METHODS.items() if method.cut_off] == ["lcd", "awrs", "lcd-unweighted"]


def test_names():
    assert named("paper1,gcd, full-smc") == (*PAPERS["paper1"], "full-smc")
    assert len(named("paper2")) == 7
    with pytest.raises(tt.errors.EvidenceError, match=r"unknown method 'gdc'.*gcd"):
        named("lcd,gdc")
