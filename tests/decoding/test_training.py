"""``tt.constraint_loss`` and ``log_kept`` beside enumeration, and the ratios of masked policies."""

import itertools
import random

import pytest
import torch
from networks import llama

import tractile as tt
from tractile.decoding import log_kept
from tractile.errors import BudgetTooSmall, EvidenceError, ShapeError, VocabularyMismatch

INF = torch.inf


def random_automaton(seed, vocab=3, states=4):
    """Edges, starts and ends at random; not deterministic as a rule."""
    dice = random.Random(seed)
    edges = [
        (dice.randrange(states), dice.randrange(vocab), dice.randrange(states))
        for _ in range(dice.randint(4, 12))
    ]
    return edges, [0], sorted({dice.randrange(states) for _ in range(2)}), vocab


def accepts(edges, start, accept, text):
    reached = set(start)
    for token in text:
        reached = {target for source, label, target in edges if source in reached and label == token}
    return bool(reached & set(accept))


def mass(logits, edges, start, accept):
    """The mass of all texts of C under independent positions, one after another."""
    p = logits.double().softmax(-1)
    texts = itertools.product(range(logits.shape[1]), repeat=logits.shape[0])
    return sum(
        (
            p[range(len(x)), x].prod() if x else torch.tensor(1.0)
            for x in texts
            if accepts(edges, start, accept, x)
        ),
        torch.tensor(0.0, dtype=torch.float64),
    )


def scores(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("seed", range(25))
def test_the_loss_is_that_of_all_texts_one_after_another(seed):
    edges, start, accept, vocab = random_automaton(seed)
    fa = tt.Automaton.from_edges(edges, start, accept, vocab)
    logits = scores(3, 4, vocab, seed=seed) * 2
    mask = torch.tensor([[1, 1, 1, 1], [1, 0, 1, 1], [0, 0, 1, 0]]).bool()
    expected = torch.stack(
        [mass(row[own], edges, start, accept) for row, own in zip(logits, mask, strict=True)]
    )
    possible = expected > 0
    if possible.any():
        found = tt.constraint_loss(logits[possible], fa, mask[possible])
        torch.testing.assert_close(found, -expected[possible].log(), atol=1e-12, rtol=0)
    if not possible.all():
        with pytest.raises((EvidenceError, BudgetTooSmall)):
            tt.constraint_loss(logits, fa, mask)


ODD = ([(0, 0, 0), (0, 1, 1), (0, 2, 0), (1, 0, 1), (1, 1, 0), (1, 2, 1)], [0], [1], 3)  # an odd number of 1s


def test_gradients_are_finite_differences():
    fa, mask = tt.Automaton.from_edges(*ODD), torch.tensor([[1, 1, 1, 1], [1, 0, 1, 0]]).bool()
    logits = scores(2, 4, 3).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: tt.constraint_loss(x, fa, mask), logits)


def test_a_canvas_with_known_tokens_has_gradients():
    fa, known = tt.Automaton.from_edges(*ODD), torch.tensor([[-1, 1, -1]])
    logits = scores(1, 3, 3).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: tt.canvas(x.log_softmax(-1), fa, known).log_partition, logits)


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"logits": torch.zeros(1, 2, 4)}, VocabularyMismatch, "4 tokens, an automaton of 3"),
        ({"logits": torch.zeros(1, 2, 3).long()}, ShapeError, "logits are floats"),
        ({"logits": torch.full((1, 2, 3), torch.nan)}, ShapeError, "hold nan or inf"),
        ({"constraint": tt.HMM.random(2, 3)}, ShapeError, r"-tt\.partition"),
        ({"constraint": {range(2): None}}, ShapeError, r"tt\.canvas"),
        ({"mask": torch.ones(1, 2)}, ShapeError, "mask holds True or False"),
        ({"mask": torch.ones(1, 3).bool()}, ShapeError, "mask holds True or False"),
        ({"mask": torch.zeros(1, 2).bool()}, EvidenceError, "row 0 has no text of its 0 positions"),
        ({"logits": torch.tensor([[[0, -INF, 0]] * 2])}, EvidenceError, "row 0 has no text of its 2 positions"),
        ({"logits": torch.full((1, 2, 3), -INF)}, EvidenceError, "row 0"),
    ],
)  # fmt: skip
def test_what_has_no_loss_is_refused(change, error, said):
    given = {"logits": torch.zeros(1, 2, 3), "constraint": tt.Automaton.from_edges(*ODD)} | change
    with pytest.raises(error, match=said):
        tt.constraint_loss(**given)


def test_a_language_too_large_to_write_out_is_refused():
    names = [f"k{i}" for i in range(40)]
    schema = {"type": "object", "properties": {name: {"type": "boolean"} for name in names}}
    constraint = tt.constraints.json_schema(schema, order="any")
    vocab = tt.Vocabulary([*(bytes([b]) for b in range(256)), None], eos_token_id=256)
    with pytest.raises(tt.errors.TooManyStates, match="10,000"):
        tt.constraint_loss(torch.zeros(1, 200, 257), constraint, vocab=vocab)


# What the mask of a language model keeps.

V, EOS, PAD, BUDGET = 12, 2, 0, 7
# The text is a run of 3s and 4s with exactly two 5s, the second the last; then the end.
EDGES = [(0, [3, 4], 0), (0, 5, 1), (1, [3, 4], 1), (1, 5, 2), (2, EOS, 3), (3, EOS, 3)]
FA = tt.Automaton.from_edges(EDGES, 0, [3], V, EOS)
PROMPTS = torch.tensor([[1, 7, 8], [1, 9, 10]])


@pytest.fixture(scope="module")
def model():
    return llama(V, initializer_range=0.4, bos_token_id=1, eos_token_id=EOS, pad_token_id=PAD)


def allowed(text, budget):
    """The tokens after which a text of the constraint fits, by the definition of the automaton above."""
    if EOS in text:
        return []
    fives, left = text.count(5), budget - len(text) - 1
    if fives == 2:
        return [EOS]
    return [v for v in (3, 4, 5) if (3 - fives - (v == 5)) <= left]


def generated(model, processor, **settings):
    torch.manual_seed(5)
    prompts = PROMPTS.repeat_interleave(settings.pop("each", 1), 0)
    return model.generate(
        prompts, logits_processor=[processor], max_new_tokens=BUDGET, do_sample=True, pad_token_id=PAD, **settings
    )  # fmt: skip


def direct(model, ids):
    """log p(x_t | x_<t) and log of the kept mass, from the model's logits and the sets of allowed tokens."""
    texts = ids[:, PROMPTS.shape[1] :]
    with torch.no_grad():
        logits = model(ids).logits[:, PROMPTS.shape[1] - 1 : -1].double()
    kept = torch.zeros(texts.shape, dtype=torch.float64)
    for i, text in enumerate(texts.tolist()):
        for t in range(len(text)):
            if some := allowed(text[:t], BUDGET):
                kept[i, t] = logits[i, t].log_softmax(0)[some].logsumexp(0)
    return texts, logits, kept


def test_the_processor_records_what_the_mask_kept(model):
    processor = tt.ConstraintLogitsProcessor(FA, log_kept=True)
    ids = generated(model, processor, num_return_sequences=8)
    texts, logits, kept = direct(model, ids)
    assert len({tuple(text) for text in texts.tolist()}) > 4
    torch.testing.assert_close(processor.log_kept.double(), kept, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(processor.log_kept.sum(1).double(), kept.sum(1), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(log_kept(logits, texts, FA, BUDGET), kept, atol=1e-9, rtol=0)
    processor.reset()
    again = generated(model, processor, num_return_sequences=8)
    assert processor.log_kept.shape == texts.shape == again[:, 3:].shape


def test_the_processor_records_each_constraint_of_several(model):
    only = tt.Automaton.from_edges([(0, 6, 1), (1, EOS, 2), (2, EOS, 2)], 0, [2], V, EOS)
    processor = tt.ConstraintLogitsProcessor([FA, only], log_kept=True)
    ids = generated(model, processor)
    with torch.no_grad():
        logits = model(ids).logits[:, 2:-1]
    kept = torch.cat(
        [log_kept(logits[:1], ids[:1, 3:], FA, BUDGET), log_kept(logits[1:], ids[1:, 3:], only, BUDGET)]
    )
    torch.testing.assert_close(processor.log_kept, kept, atol=1e-5, rtol=0)


def test_a_processor_that_does_not_record_says_so():
    with pytest.raises(EvidenceError, match="log_kept=True"):
        _ = tt.ConstraintLogitsProcessor(FA, max_new_tokens=4).log_kept


@pytest.mark.parametrize(
    ("text", "said"),
    [([3, 6], "token 6 of row 0, position 1"), ([5, -1], "token -1"), ([V, 3], f"token {V}"), ([3, 3, 3, 3, 3, 3], "position 4")],
)  # fmt: skip
def test_texts_outside_the_constraint_have_no_kept_mass(text, said):
    with pytest.raises(EvidenceError, match=said):
        log_kept(torch.zeros(1, len(text), V), torch.tensor([text]), FA, BUDGET)
