"""The most probable text: enumeration is the oracle of the value, its certificate and the gap."""

import itertools
import math
from typing import Annotated, Literal

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel
from smc_reference import CASES, EOS, Fsa, N, V, as_automaton, enumerate_target, padded, random_table

import tractile as tt
from tractile.errors import BudgetTooSmall, EvidenceError, NoParticleSurvived, UnknownArgument

PROMPT = "Tom has a pet. It is a"
LM = tt.embedded.load_lm()
ROUNDING = 1e-4  # nats: rows of a batch differ in their last digits


def log_prob_of(tokens, prompt=PROMPT, temperature=1.0):
    """log p_lm of a sequence of tokens by one pass of the embedded model."""
    model, tokenizer = LM
    ids = tokenizer(prompt).input_ids
    with torch.no_grad():
        logits = model(torch.tensor([[*ids, *tokens]])).logits[0, len(ids) - 1 : -1].double() / temperature
    return float(logits.log_softmax(-1).gather(1, torch.tensor(tokens)[:, None]).sum())


def sequences(fa, budget):
    """Every sequence of tokens of a small constraint within the budget."""
    todo, eos = [()], LM[1].eos_token_id
    for prefix in todo:
        query = tt.gcd(fa, budget).start(1, budget)
        for token in prefix:
            query.advance([token])
        for token in query.mask()[0].nonzero()[:, 0].tolist():
            if token == eos:
                yield (*prefix, eos)
            else:
                todo.append((*prefix, token))


def greedy_by_hand(lm, fsa, n):
    """log p_lm of the text that takes the most probable allowed token each time; −∞ if there is none."""
    fa, tokens, total = as_automaton(fsa), (), 0.0
    query = tt.gcd(fa, n).start(1, n)
    lm.start([[]])
    while len(tokens) < n and fsa.eos_token_id not in tokens:
        row = lm.log_probs()[0].masked_fill(~query.mask()[0], -torch.inf)
        tokens, total = (*tokens, int(row.argmax())), total + float(row.max())
        if total == -math.inf:
            break
        lm.advance(torch.tensor(tokens[-1:]))
        query.advance(torch.tensor(tokens[-1:]))
    return total


@pytest.mark.parametrize("width", [1, 3, 64])
@pytest.mark.parametrize("case", CASES)
def test_it_is_the_most_probable_of_all(case, width):
    lm, fsa = CASES[case]
    target = enumerate_target(lm, fsa, N)
    found = tt.mode(lm, None, [], as_automaton(fsa), max_new_tokens=N, width=width)
    assert found.certified
    assert found.gap == 0
    assert found.log_prob == found.upper_bound == pytest.approx(math.log(max(target.values())))
    assert target[padded(found.token_ids, N, EOS)] == max(target.values())
    assert found.value == found.text == lm.decode(found.token_ids)
    assert found.greedy_log_prob == pytest.approx(greedy_by_hand(lm, fsa, N))
    assert found.lost_by_greedy == found.log_prob - found.greedy_log_prob
    best = tt.decoding.beam_search(lm, [], as_automaton(fsa), N, V**N)[0]
    assert (found.token_ids, found.log_prob) == (best.token_ids, pytest.approx(best.log_prob))


@settings(max_examples=60, deadline=None)
@given(
    edges=st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, V - 1), st.integers(0, 2)), min_size=1, max_size=8
    ),
    n=st.integers(1, 4),
    width=st.integers(1, 3),
    passes=st.integers(1, 40),
    zero=st.integers(0, V),
    ended=st.booleans(),
    seed=st.integers(0, 50),
)
def test_the_gap_covers_the_truth(edges, n, width, passes, zero, ended, seed):
    """Of random models and constraints, after any number of passes; a token may be impossible."""
    eos = EOS if ended else None
    edges = [edge for edge in edges if edge[1] != eos] + [(0, EOS, 3), (3, EOS, 3)] * ended
    fsa = Fsa(edges, 0, [3 if ended else 0], V, eos)
    lm = tt.lm.TableLM(random_table(V, 1, seed, zero), eos)
    asked = {"max_new_tokens": n, "width": width, "passes": passes}
    if not any(fsa.accepts(x) for x in itertools.product(range(V), repeat=n)):
        with pytest.raises(BudgetTooSmall):
            tt.mode(lm, None, [], as_automaton(fsa), **asked)
        return
    target = enumerate_target(lm, fsa, n)
    try:
        found = tt.mode(lm, None, [], as_automaton(fsa), **asked)
    except NoParticleSurvived:
        assert zero < V
        assert not target or passes < 40
        return
    best = math.log(max(target.values()))
    assert math.exp(found.log_prob) == pytest.approx(target[padded(found.token_ids, n, EOS)])
    assert found.log_prob <= best + 1e-9 <= found.upper_bound + 2e-9
    assert found.gap >= 0
    assert not found.certified or found.log_prob == pytest.approx(best)
    assert found.passes <= max(passes, n)
    assert found.greedy_log_prob == pytest.approx(greedy_by_hand(lm, fsa, n))


def test_more_passes_narrow_the_gap():
    """Greedy takes token 0 and is lost; the better text is found once the beams go back."""
    table = {(): [0.6, 0.4], (0,): [0.5, 0.5], (1,): [0.01, 0.99]}
    lm = tt.lm.TableLM({key: torch.tensor(row).log() for key, row in table.items()})
    fsa = Fsa([(0, [0, 1], 0)], 0, [0], V - 1)
    given = {"max_new_tokens": 6, "width": 1}
    found = [tt.mode(lm, None, [], as_automaton(fsa), passes=passes, **given) for passes in (1, 6, 12, 60)]
    assert [one.passes for one in found[:2]] == [6, 6]
    assert found[0].log_prob == found[0].greedy_log_prob == pytest.approx(math.log(0.6 * 0.5**5))
    gaps = [one.gap for one in found]
    assert gaps == sorted(gaps, reverse=True)
    assert not found[0].certified
    assert found[-1].certified
    assert found[-1].token_ids == (1,) * 6
    assert found[-1].log_prob == pytest.approx(math.log(0.4 * 0.99**5))


# ------------------------------------------------------------ of a neural model


class Pet(BaseModel):
    kind: Literal["cat", "dog", "bird"]
    age: Literal[1, 2, 30]


@pytest.mark.parametrize(
    ("output", "budget", "temperature"),
    [(Literal[" cat", " dog", " bird"], 6, None), (Pet, 24, None), (Literal[" cat", " cow"], 6, 0.5)],
    ids=["choices", "object", "cooler"],
)
def test_every_sequence_of_the_embedded_model_is_compared(output, budget, temperature):
    kind = tt.constraints.output_type(output)
    found = tt.mode(*LM, PROMPT, output, max_new_tokens=budget, temperature=temperature, passes=60)
    assert found.value == kind.parse(found.text)
    t = temperature or 1.0
    assert found.log_prob == pytest.approx(log_prob_of(found.token_ids, temperature=t), abs=ROUNDING)
    if output is not Pet:  # whose sequences are too many
        fa = kind.compiled_for(LM[1])
        best = max(log_prob_of(x, temperature=t) for x in sequences(fa, budget))
        assert found.certified
        assert found.log_prob == pytest.approx(best, abs=ROUNDING)
    greedy = tt.generate(*LM, PROMPT, output, max_new_tokens=budget, temperature=temperature, posterior=True,
                         top_k=1)[1].best  # fmt: skip
    assert found.greedy_log_prob == pytest.approx(log_prob_of(greedy.token_ids, temperature=t), abs=ROUNDING)


def test_canonical_texts_are_those_of_the_tokenizer():
    found = tt.mode(*LM, PROMPT, Literal[" cat", " dog"], max_new_tokens=8, canonical=True)
    own = [(*LM[1](PROMPT + x).input_ids[len(LM[1](PROMPT).input_ids) :], 2) for x in (" cat", " dog")]
    assert found.token_ids in own
    assert found.log_prob == pytest.approx(max(map(log_prob_of, own)), abs=ROUNDING)


def not_(*texts):
    def check(text):
        if text.strip() in texts:
            raise ValueError(f"never {text}")
        return text

    return Annotated[Literal["cat", "dog"], AfterValidator(check)]


def test_a_validator_refuses_candidates():
    anything = tt.mode(*LM, PROMPT, not_(), max_new_tokens=8)
    other = tt.mode(*LM, PROMPT, not_(anything.value), max_new_tokens=8)
    assert {anything.value, other.value} == {"cat", "dog"}
    assert other.certified
    assert other.log_prob < anything.log_prob
    if anything.log_prob == anything.greedy_log_prob:
        assert other.greedy_log_prob == -math.inf
    with pytest.raises(NoParticleSurvived, match=r"mode: output refused all \d+ (?s:.*)never"):
        tt.mode(*LM, PROMPT, not_("cat", "dog"), max_new_tokens=8)


# ------------------------------------------------------------ limits and refusals


class Stops(tt.lm.TableLM):
    """A model that is interrupted in its pass of this number."""

    def __init__(self, at):
        super().__init__(random_table(V, 2, seed=5))
        self.left = at

    def log_probs(self):
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt
        return super().log_probs()


def test_an_interrupt_gives_what_was_found():
    lm, fsa = CASES["exact"]
    best = math.log(max(enumerate_target(lm, fsa, N).values()))
    for at in range(N + 1, 3 * N):
        found = tt.mode(Stops(at), None, [], as_automaton(fsa), max_new_tokens=N, width=1)
        assert found.log_prob <= best + 1e-9 <= found.upper_bound + 2e-9
    with pytest.raises(KeyboardInterrupt):
        tt.mode(Stops(2), None, [], as_automaton(fsa), max_new_tokens=N)


def test_the_greedy_text_is_finished_in_no_time():
    lm, fsa = CASES["exact"]
    found = tt.mode(lm, None, [], as_automaton(fsa), max_new_tokens=N, width=1, seconds=0)
    assert found.passes == N
    assert found.log_prob == found.greedy_log_prob


def test_progress_shows_the_gap(capsys):
    tt.mode(*LM, PROMPT, tt.constraints.regex(" [a-z]{2,5}"), max_new_tokens=6, passes=9, progress=True)
    assert "/9 passes, gap" in capsys.readouterr().out


CANVAS = tt.canvas(torch.zeros(1, N, V).log_softmax(-1), as_automaton(CASES["exact"][1]))
MASKED = tt.lm.MaskedLM(*tt.embedded.load_masked_lm())


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"max_new_tokens": 1}, BudgetTooSmall, "token"),
        ({"model": MASKED}, EvidenceError, "MaskedLM writes no text from left to right.*denoise"),
        ({"model": tt.embedded.load_masked_lm()[0]}, EvidenceError, "BertForMaskedLM"),
        ({"model": CANVAS}, EvidenceError, "Canvas .*mpe"),
        ({"model": tt.TransformersLM(*LM) ** 2}, EvidenceError, "mode: a ProductLM"),
        ({"prompt": [PROMPT, PROMPT]}, EvidenceError, "list of 2 prompts; call mode for each"),
        ({"top_p": 0.9}, EvidenceError, "mode: top_p is not taken"),
        ({"top_k": 5}, EvidenceError, "mode: top_k is not taken"),
        ({"hmm": tt.embedded.HMM_PATH}, EvidenceError, "mode: hmm is not taken"),
        ({"samples": 3}, EvidenceError, "mode: samples is not taken"),
        ({"output": tt.constraints.any_of(" cat").compile(LM[1]), "canonical": True}, EvidenceError, "is compiled"),
        ({"temperature": 0}, EvidenceError, "temperature=0 is greedy decoding"),
        ({"temperature": -1}, EvidenceError, "mode: temperature"),
        ({"model": CASES["ended"][0], "temperature": 0.5}, EvidenceError, "mode: a TableLM has no temperature"),
        ({"passes": 0}, EvidenceError, "mode: passes"),
        ({"width": 0}, EvidenceError, "mode: width"),
        ({"seconds": -1}, EvidenceError, "mode: seconds"),
        ({"budget": 3}, UnknownArgument, "max_new_tokens"),
    ],
)  # fmt: skip
def test_what_is_refused(given, error, said):
    asked = {
        "model": LM[0],
        "tokenizer": LM[1],
        "prompt": PROMPT,
        "output": Literal[" cat", " dog"],
        "max_new_tokens": 8,
    } | given
    with pytest.raises(error, match=said):
        tt.mode(**asked)
