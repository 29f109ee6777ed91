"""``tt.constraint_loss`` and ``log_kept`` beside enumeration, and the ratios of masked policies."""

import itertools
import math
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


def test_gradients_beside_logits_of_minus_infinity():
    """The finite ones have finite differences, also where a position or a whole letter is impossible; the others have zero."""
    fa, open_ = tt.Automaton.from_edges(*ODD), torch.ones(2, 3, 3, dtype=torch.bool)
    open_[0, 0, 1] = open_[0, 1, :2] = open_[1, 2, 2] = False

    def loss(values):
        return tt.constraint_loss(torch.full((2, 3, 3), -INF).double().masked_scatter(open_, values), fa)

    values = scores(int(open_.sum()), seed=1).requires_grad_()
    assert torch.autograd.gradcheck(loss, values)
    logits = torch.full((2, 3, 3), -INF).double().masked_scatter(open_, values.detach()).requires_grad_()
    tt.constraint_loss(logits, fa).sum().backward()
    assert logits.grad.isfinite().all()
    assert (logits.grad[~open_] == 0).all()


def test_a_canvas_with_known_tokens_has_gradients():
    fa, known = tt.Automaton.from_edges(*ODD), torch.tensor([[-1, 1, -1]])
    logits = scores(1, 3, 3).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: tt.canvas(x.log_softmax(-1), fa, known).log_partition, logits)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_what_is_outside_the_mask_is_not_read(dtype):
    fa, logits = tt.Automaton.from_edges(*ODD), scores(2, 4, 3).to(dtype)
    mask = torch.tensor([True, False, True, True])
    expected = tt.constraint_loss(logits[:, [0, 2, 3]].double(), fa)
    logits[:, 1] = torch.nan
    logits.requires_grad_()
    found = tt.constraint_loss(logits, fa, mask)
    torch.testing.assert_close(found.detach(), expected, atol=1e-12, rtol=0)
    found.sum().backward()
    assert (logits.grad[:, 1] == 0).all()
    assert logits.grad[:, 0].abs().sum() > 0


def test_far_apart_and_shifted_logits():
    fa = tt.Automaton.from_edges(*ODD)
    logits = torch.tensor([[[800.0, 0, 0], [0, -650, 0]]], dtype=torch.float64)
    with torch.no_grad():
        p = logits.log_softmax(-1)
        exact = torch.logaddexp(
            p[0, 0, 1] + p[0, 1, [0, 2]].logsumexp(0), p[0, 0, [0, 2]].logsumexp(0) + p[0, 1, 1]
        )
    assert tt.constraint_loss(logits, fa).item() == pytest.approx(-exact.item(), rel=1e-12)
    shifted = logits + torch.tensor([[[1e4], [-1e5]]])
    assert tt.constraint_loss(shifted, fa).item() == pytest.approx(-exact.item(), rel=1e-9)


def test_a_constraint_with_an_end():
    ended = tt.Vocabulary([b"O", b"B", b"I", None], eos_token_id=3)
    logits, bio = scores(1, 3, 4, seed=4), tt.constraints.regex("(O|BI*)*")
    canvas = tt.canvas(logits.log_softmax(-1), bio, vocab=ended)
    found = tt.constraint_loss(logits, bio, vocab=ended)
    assert found.item() == pytest.approx(-canvas.log_partition.item(), abs=1e-12)


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


def test_rows_that_are_copied_and_taken_back_keep_their_own():
    processor = tt.ConstraintLogitsProcessor(FA, max_new_tokens=BUDGET, log_kept=True)
    table = scores(3, V, seed=7).log_softmax(1)

    def call(*texts):
        rows = torch.tensor([[1, *text] for text in texts])
        processor(rows, table[len(texts[0]) % 3].expand(2, -1))
        return processor.log_kept

    def kept(text):
        sets = [allowed(text[:t], BUDGET) for t in range(len(text) + 1)]
        return [table[t % 3, some].logsumexp(0).item() if some else 0.0 for t, some in enumerate(sets)]

    for texts in ([[], []], [[3], [5]], [[5, 5], [5, 3]], [[5, 5, EOS], [5, 5, EOS]], [[5], [5]]):
        found = call(*texts)
        torch.testing.assert_close(
            found, torch.tensor([kept(text) for text in texts], dtype=torch.float64), atol=1e-9, rtol=0
        )
    jumped = call([5, 3, 4], [5, 5, EOS])  # as assisted generation may: two tokens at once
    assert jumped.isnan().tolist() == [[False, False, True, False]] * 2


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


def test_posteriors_have_the_kept_mass():
    table = {(): scores(V, seed=3), (3,): scores(V, seed=4), (5,): scores(V, seed=5)}
    lm = tt.lm.TableLM({key: row.log_softmax(0) for key, row in table.items()}, eos_token_id=EOS)
    post = tt.smc(lm, [1], FA, "gcd", particles=6, max_new_tokens=BUDGET, seed=1)
    for ids, kept in zip(post.token_ids, post.log_kept, strict=True):
        logits = torch.stack([table.get(ids[t - 1 : t], table[()]) for t in range(len(ids))])
        expected = [row.log_softmax(0)[allowed(ids[:t], BUDGET)].logsumexp(0) for t, row in enumerate(logits)]
        torch.testing.assert_close(kept, torch.stack(expected), atol=1e-9, rtol=0)
        own = log_kept(logits[None], torch.tensor([ids]), FA, BUDGET)
        torch.testing.assert_close(own[0], kept, atol=1e-9, rtol=0)
    both = tt.inference.smc.Runs([post, post]).pooled()
    assert [len(kept) for kept in both.log_kept] == [len(ids) for ids in both.token_ids]
    assert tt.smc(lm, [1], FA, "lm", particles=3, max_new_tokens=BUDGET, seed=1).log_kept is None
    warm = tt.inference.smc.GCDProposal(temperature=2.0)
    assert tt.smc(lm, [1], FA, warm, particles=3, max_new_tokens=BUDGET, seed=1).log_kept is None


def test_the_ratio_of_masked_policies_has_mean_one(model):
    """Under no update each is 1; after one their expectation is, over all tokens and in samples. Without the mask neither is."""
    ids = generated(model, tt.ConstraintLogitsProcessor(FA), num_return_sequences=50)
    texts, old, _ = direct(model, ids)
    new = old + 2 * scores(*old.shape[1:], seed=9)
    there = (texts != PAD) & ((texts == EOS).int().cumsum(1) <= 1)

    def masked(logits):
        own = logits.log_softmax(-1).gather(2, texts.clamp(max=V - 1)[:, :, None])[:, :, 0]
        return own, own - log_kept(logits, texts, FA, BUDGET)

    (plain_old, masked_old), (_, masked_new) = masked(old), masked(new)
    assert (masked_old - masked(old)[1])[there].exp().mean().item() == 1.0
    assert (plain_old - masked_old)[there].exp().mean() < 0.9  # S: sampled under the mask, scored without
    ratio = (masked_new - masked_old)[there].exp()
    assert abs(ratio.mean() - 1) < 4 * ratio.std() / math.sqrt(len(ratio))
    first = allowed([], BUDGET)
    pi = {
        name: logits[0, 0].log_softmax(0)[first] - logits[0, 0].log_softmax(0)[first].logsumexp(0)
        for name, logits in (("old", old), ("new", new))
    }
    assert (pi["old"].exp() * (pi["new"] - pi["old"]).exp()).sum().item() == pytest.approx(1)
    unmasked = (new[0, 0].log_softmax(0) - old[0, 0].log_softmax(0))[first].exp()
    assert abs((pi["old"].exp() * unmasked).sum().item() - 1) > 0.01


def test_log_kept_has_gradients(model):
    texts = torch.tensor([[3, 5, 5, EOS, PAD]])
    logits = scores(1, 5, V).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: log_kept(x, texts, FA, BUDGET), logits)
