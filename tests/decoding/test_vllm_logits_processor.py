"""The adapter for vLLM against a simulated scheduler: every row's logits are those of a processor of its own."""

import json
import pickle
import random
from dataclasses import dataclass, field
from enum import Enum, auto

import pytest
import torch

import tractile as tt
from tractile.decoding.request import read_request
from tractile.decoding.vllm import VLLMLogitsProcessor
from tractile.decoding.vllm.batch import MOST_GROUPS
from tractile.embedded import load_lm

TOKENIZER = load_lm()[1]
V = len(TOKENIZER)
EOS = TOKENIZER.eos_token_id


class Direction(Enum):
    UNIDIRECTIONAL = auto()
    SWAP = auto()


@dataclass
class Update:
    batch_size: int
    removed: list
    added: list
    moved: list


@dataclass
class Params:
    """The part of ``SamplingParams`` that is read."""

    max_tokens: int | None = 16
    extra_args: dict | None = None
    min_tokens: int = 0
    structured_outputs: object = None


class Masks(VLLMLogitsProcessor):
    tokenizer = TOKENIZER


class Guided(VLLMLogitsProcessor):
    tokenizer = TOKENIZER
    hmm = tt.HMM.random(4, V, seed=1, dtype=torch.float64)


WISHES = [
    None, {"regex": r" [a-z]+( and [a-z]+)*\."}, {"regex": r" [a-z]+( and [a-z]+)*\.", "max_new_tokens": 7},
    {"choice": [" yes", " no", " maybe not"], "max_new_tokens": 5}, json.dumps({"json_schema": {"type": "boolean"}}),
    {"regex": r"(a|b)*c", "strength": 0.5, "max_new_tokens": 6}, {"regex": r"(a|b)*c", "mixture": 0.5},
    {"keywords": [["dog"]], "options": {"word_boundaries": False}, "hmm": False},
]  # fmt: skip


@dataclass(eq=False)
class Request:
    """A request as the engine has it: its list of tokens is handed over once, and grows."""

    params: Params
    output: list = field(default_factory=list)
    single: object = None
    done: bool = False


class Scheduler:
    """The persistent batch: slots 0 … n − 1; who leaves is replaced by who comes, gaps are filled from the end, rows swap."""

    def __init__(self, processor, seed, adapter):
        self.processor, self.random, self.adapter = processor, random.Random(seed), adapter
        self.generator = torch.Generator().manual_seed(seed)
        self.slots, self.waiting, self.aside = [], [], []

    def submit(self, wish):
        params = Params(16, None if wish is None else {"tractile": wish})
        self.adapter.validate_params(params)
        self.waiting.append(Request(params))

    def changes(self, most):
        """Take out those that are done and some that are set aside, put in others, fill the gaps, swap."""
        removed = [i for i, r in enumerate(self.slots) if r.done]
        for i, request in enumerate(self.slots):
            if not request.done and self.random.random() < 0.1:
                removed.append(i)
                self.aside.append(request)
        slots = [None if i in removed else r for i, r in enumerate(self.slots)]
        gaps, added, moved = sorted(removed), [], []
        queue = [r for r in self.aside if self.random.random() < 0.5 and r not in self.slots] + self.waiting
        while queue and sum(r is not None for r in slots) < most:
            request = queue.pop(0)
            (self.waiting if request in self.waiting else self.aside).remove(request)
            slot = gaps.pop(0) if gaps else len(slots)
            slots[slot : slot + 1] = [request]
            added.append((slot, request.params, [1, 2, 3], request.output))
        unfilled = sorted(gaps, reverse=True)
        while True:  # the last moves into the first gap
            while slots and slots[-1] is None:
                slots.pop()
            gaps = [g for g in gaps if g < len(slots)]
            if not gaps:
                break
            gap = gaps.pop(0)
            moved.append((len(slots) - 1, gap, Direction.UNIDIRECTIONAL))
            slots[gap], slots[-1] = slots[-1], None
        for _ in range(self.random.randrange(3)):
            if len(slots) > 1:
                a, b = self.random.sample(range(len(slots)), 2)
                slots[a], slots[b] = slots[b], slots[a]
                moved.append((a, b, Direction.SWAP))
        self.slots = slots
        return Update(len(slots), unfilled, added, moved) if removed or added or moved else None

    def step(self, most):
        self.processor.update_state(self.changes(most))
        if not self.slots:
            return
        logits = torch.randn(len(self.slots), V + 3, generator=self.generator, dtype=torch.float64)
        found = self.processor.apply(logits.clone())
        for request, row, raw in zip(self.slots, found, logits, strict=True):
            expected = self.alone(request, raw)
            torch.testing.assert_close(row, expected, rtol=1e-9, atol=1e-9)
            if self.random.random() < 0.1:
                continue  # prefilled in part: what is drawn is thrown away
            request.output.append(int(row.softmax(0).multinomial(1, generator=self.generator)))
            ended = request.output[-1] == EOS or len(request.output) == request.params.max_tokens
            request.done = ended

    def alone(self, request, raw):
        """What a processor makes of the row alone."""
        wish = read_request(request.params)
        if wish is None:
            return raw
        if request.single is None:
            request.single = tt.ConstraintLogitsProcessor(
                self.adapter.automaton(wish.constraint),
                self.adapter.hmm if wish.hmm else None,
                wish.budget,
                strength=wish.strength,
                mixture=wish.mixture,
            )
        return request.single(torch.tensor([[1, 2, 3, *request.output]]), raw[None])[0]


@pytest.mark.parametrize("adapter", [Masks, Guided])
@pytest.mark.parametrize("seed", [0, 1, pytest.param(2, marks=pytest.mark.long)])
def test_every_row_is_as_if_it_were_alone(adapter, seed):
    scheduler = Scheduler(adapter(None, torch.device("cpu"), False), seed, adapter)
    everyone = []
    for t in range(45):
        if t < 20:
            for _ in range(scheduler.random.randrange(3)):
                scheduler.submit(scheduler.random.choice(WISHES))
                everyone.append(scheduler.waiting[-1])
        scheduler.step(most=scheduler.random.choice([2, 6, 12]))
    finished = [r for r in everyone if r.done]
    assert len(finished) > 10
    for request in finished:
        wish = read_request(request.params)
        if wish is not None:
            fa = adapter.automaton(wish.constraint)
            text = request.output[: wish.budget]
            assert text[-1] == EOS or len(request.output) == wish.budget
            assert not tt.log_marginal(fa, torch.tensor([text]), semiring=tt.inference.Boolean()).isneginf()
    assert len(scheduler.processor._batch.queries) <= MOST_GROUPS
    while scheduler.slots or scheduler.waiting or scheduler.aside:
        scheduler.step(most=12)
    scheduler.processor.apply(torch.zeros(0, V))
    assert not scheduler.processor._batch.groups


def test_many_that_begin_one_after_the_other_are_put_together():
    processor = Masks(None, torch.device("cpu"), False)
    outputs = [[] for _ in range(3 * MOST_GROUPS)]
    params = Params(64, {"tractile": {"regex": "(a|b)*c"}})
    for slot, output in enumerate(outputs):
        processor.update_state(Update(slot + 1, [], [(slot, params, None, output)], []))
        logits = processor.apply(torch.zeros(slot + 1, V))
        assert bool((logits == logits[:1]).all())  # equal states, whenever they began
        for each in outputs[: slot + 1]:
            each.append(TOKENIZER.convert_tokens_to_ids("a"))
        (groups,) = processor._batch.groups.values()
        assert len(groups) <= MOST_GROUPS
    assert sum(len(group.requests) for group in groups) == len(outputs)


def test_a_text_that_became_shorter_is_read_anew():
    processor = Masks(None, torch.device("cpu"), False)
    a, c = (TOKENIZER.convert_tokens_to_ids(x) for x in "ac")
    output = []
    processor.update_state(
        Update(1, [], [(0, Params(9, {"tractile": {"regex": "(a|b)*c"}}), None, output)], [])
    )
    first = processor.apply(torch.zeros(1, V))
    output += [a, a, c]
    assert processor.apply(torch.zeros(1, V)).isfinite().nonzero().tolist() == [[0, EOS]]
    del output[1:]
    assert torch.equal(processor.apply(torch.zeros(1, V)), first)


def test_a_move_onto_a_constrained_row_replaces_it():
    processor = Masks(None, torch.device("cpu"), False)
    params = Params(9, {"tractile": {"regex": "a*"}})
    processor.update_state(Update(2, [], [(0, Params(), None, []), (1, params, None, [])], []))
    processor.update_state(Update(1, [], [], [(0, 1, Direction.UNIDIRECTIONAL)]))
    assert torch.equal(processor.apply(torch.zeros(2, V)), torch.zeros(2, V))
    processor.update_state(Update(1, [], [(1, params, None, [])], []))
    # replaced by a row without a constraint
    processor.update_state(Update(1, [], [(1, Params(), None, [])], []))
    assert torch.equal(processor.apply(torch.zeros(2, V)), torch.zeros(2, V))


@pytest.mark.parametrize(
    ("wish", "settings", "message"),
    [
        ({}, {}, "should have one of"),
        ({"regex": "a", "choice": ["b"]}, {}, "should have one of"),
        ({"regex": "a", "speed": 3}, {}, "should have one of"),
        ("{", {}, "not an object"),
        (7, {}, "not an object"),
        ({"regex": 7}, {}, "no regex"),
        ({"json_schema": "/etc/passwd"}, {}, "no json_schema"),  # files are not read for requests
        ({"tools": "tools.json"}, {}, "no tools"),
        ({"grammar": "rules.lark"}, {}, "grammar cannot be read"),
        ({"regex": "a("}, {}, "at position"),
        ({"regex": "a", "options": {"colour": 1}}, {}, "colour"),
        ({"regex": "a", "max_new_tokens": 0}, {}, "budget"),
        ({"regex": "a", "max_new_tokens": "5"}, {}, "budget"),
        ({"regex": "a", "max_new_tokens": 17}, {}, "max_tokens = 16"),
        ({"regex": "a"}, {"max_tokens": None}, "budget"),
        ({"regex": "a", "strength": "x"}, {}, "strength"),
        ({"regex": "a", "strength": -1}, {}, "strength"),
        ({"regex": "a", "mixture": 2}, {}, "mixture"),
        ({"regex": "a"}, {"min_tokens": 3}, "min_tokens"),
        ({"regex": "a"}, {"structured_outputs": object()}, "structured_outputs"),
        ({"regex": "(abc ){40}"}, {}, "tokens are needed"),
        ({"regex": "a[^\\s\\S]"}, {}, "satisf"),
    ],
)
def test_a_request_that_cannot_be_served_is_refused_before_the_engine_sees_it(wish, settings, message):
    with pytest.raises(ValueError, match=message):
        Masks.validate_params(Params(**({"extra_args": {"tractile": wish}} | settings)))


def test_the_class_says_what_it_lacks():
    class Bare(VLLMLogitsProcessor):
        pass

    with pytest.raises(tt.errors.EvidenceError, match="tokenizer"):
        Bare.validate_params(Params(extra_args={"tractile": {"regex": "a"}}))

    class Other(VLLMLogitsProcessor):
        tokenizer = TOKENIZER
        hmm = tt.HMM.random(2, 7)

    with pytest.raises(tt.errors.VocabularyMismatch, match="7 tokens"):
        Other(None, torch.device("cpu"), False)
    processor = Masks(None, torch.device("cpu"), False)
    params = Params(extra_args={"tractile": {"regex": "a"}})
    processor.update_state(Update(1, [], [(0, params, None, [-1])], []))
    with pytest.raises(tt.errors.EvidenceError, match="asynchronous"):
        processor.apply(torch.zeros(1, V))


def test_the_interface():
    processor = Masks(None, torch.device("cpu"), False)
    processor.update_state(None)
    assert not processor.is_argmax_invariant()
    assert processor.needs_output_token_ids()
    assert pickle.loads(pickle.dumps(Masks)) is Masks
