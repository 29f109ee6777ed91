"""``denoise`` beside an enumeration of a small model's denoising paths, and on the masked model that ships."""

import itertools
import json
import math
from functools import cache
from types import SimpleNamespace

import pytest
import torch

import tractile as tt
from tractile.decoding.diffusion import denoise, linear, margin, negative_entropy, threshold, timesteps, top
from tractile.embedded import MASKED_LM_PATH, load_masked_lm
from tractile.errors import ContextTooLong, EvidenceError, ShapeError

regex = tt.constraints.regex
lm = cache(lambda: tt.lm.MaskedLM(*load_masked_lm()))
WORDS = regex(r"( [a-z]+){2,}\.")
ITEM = tt.constraints.json_schema(
    {
        "type": "object",
        "properties": {
            "kind": {"enum": ["cat", "dog"]},
            "age": {"type": "integer", "minimum": 1, "maximum": 20},
        },
        "required": ["kind", "age"],
        "additionalProperties": False,
    }
)

# -------------------------------------------------------------------------------------------------- a model of three words


class Small:
    """Random distributions over 0 (end), a, b, c at each position, by what is there; 4 is the mask."""

    mask_token_id, eos_token_id, pad_token_id, device = 4, 0, None, torch.device("cpu")
    tokenizer = tt.Vocabulary([None, b"a", b"b", b"c", None], eos_token_id=0)

    def log_probs(self, ids):
        out = []
        for row in ids.tolist():
            noise = torch.randn(
                len(row), 5, generator=torch.Generator().manual_seed(hash(tuple(row)) % 2**31)
            )
            noise[:, 4] = -torch.inf
            out.append((0.7 * noise.double()).log_softmax(-1))
        return torch.stack(out)


def accepts(constraint, row):
    """Whether a row is a text of the constraint, and end tokens, at least one."""
    text = itertools.takewhile(bool, row)
    word = "".join(" abc"[v] for v in text)
    return len(word) < len(row) and not any(row[len(word) :]) and constraint.accepts(word)


def agreeing(row, constraint):
    """The texts of the constraint that agree with a row so far."""
    texts = itertools.product(*(range(4) if v == 4 else [v] for v in row))
    return [x for x in texts if accepts(constraint, x)]


def paths(row, constraint, count):
    """{final row: probability} of the model alone, that fills the ``count`` surest positions under the constraint at a time."""
    if 4 not in row:
        return {row: 1.0}
    p = Small().log_probs(torch.tensor([row]))[0].exp().tolist()
    opened = [t for t, v in enumerate(row) if v == 4]
    texts = agreeing(row, constraint)
    if not texts:
        return {}
    weights = [math.prod(p[t][x[t]] for t in opened) for x in texts]
    shares = {
        t: [sum(w for x, w in zip(texts, weights, strict=True) if x[t] == v) for v in range(4)]
        for t in opened
    }
    sure = {t: round(max(found) / sum(weights), 9) for t, found in shares.items()}
    chosen = sorted(sorted(opened, key=lambda t: -sure[t])[:count])
    out = {}
    for values in itertools.product(range(4), repeat=len(chosen)):
        after = list(row)
        for t, v in zip(chosen, values, strict=True):
            after[t] = v
        share = math.prod(p[t][v] for t, v in zip(chosen, values, strict=True))
        for x, rest in paths(tuple(after), constraint, count).items():
            out[x] = out.get(x, 0) + share * rest
    return out


def rounded(marginals):
    """Positions that the constraint decides are equally sure, up to rounding: the first of them is filled."""
    return top(marginals).exp().round(decimals=9)


@pytest.mark.long
@pytest.mark.parametrize(("count", "resample"), [(1, 0.0), (2, 0.0), (1, 1.0)])
def test_weighted_paths_are_the_models_own_given_the_constraint(count, resample):
    constraint, n, k = regex("(ab|c)*a?"), 4, 4000
    found = {x: w for x, w in paths((4,) * n, constraint, count).items() if accepts(constraint, x)}
    total = sum(found.values())
    ids, steps = torch.full((n,), 4), -(-n // count)
    run = denoise(
        Small(), ids, constraint, particles=k, steps=steps, resample=resample, confidence=rounded, seed=3
    )
    assert all(accepts(constraint, row) for row in run.tokens.tolist())
    if not resample:
        torch.testing.assert_close(run.log_weights, run.log_p - run.log_q)
    weights = run.log_weights.exp()
    assert run.log_evidence == pytest.approx(math.log(total), abs=0.06)
    assert weights.std() > 0 if not resample else run.ess > 0.9 * k
    rows = [tuple(row) for row in run.tokens.tolist()]
    assert len(run.lineage_or_own[:, 0].unique()) < k if resample else run.lineage_or_own.shape[1] == 1
    field = dict(run.field(level=0.9999).entries)
    for x, w in found.items():
        text = "".join("_abc"[v] for v in x).strip("_")
        assert field[text].low <= w / total <= field[text].high
        share = sum(float(v) for row, v in zip(rows, weights, strict=True) if row == x) / float(weights.sum())
        assert share == pytest.approx(w / total, abs=5 * math.sqrt(w / total / (k / 3)) + 0.002)


# ------------------------------------------------------------------------------------------- a model that rules tokens out


class Fixed:
    """Distributions over 0 (end), a and b, of the row so far; 3 is the mask."""

    mask_token_id, eos_token_id, pad_token_id, device = 3, 0, None, torch.device("cpu")
    tokenizer = tt.Vocabulary([None, b"a", b"b", None], eos_token_id=0)

    def __init__(self, of, dtype=torch.float64):
        self.of, self.dtype = of, dtype

    def log_probs(self, ids):
        return torch.stack([torch.tensor(self.of(row)).to(self.dtype).log() for row in ids.tolist()])


A, B, END, EVEN = [0, 1.0, 0, 0], [0, 0, 1.0, 0], [1.0, 0, 0, 0], [0, 0.5, 0.5, 0]


def in_order(confidence, step, steps):
    """The first open position."""
    return torch.arange(confidence.shape[1]) == confidence.isfinite().int().argmax(1, keepdim=True)


def evidence(model, constraint, n, seed, **options):
    found = denoise(model, torch.full((n,), 3), constraint, schedule=in_order, seed=seed, **options)
    assert all(map(constraint.accepts, found.texts))
    return found


@pytest.mark.parametrize("resample", [0.0, 0.5, 1.0])
def test_a_particle_that_the_model_leaves_no_text_dies_alone(resample):
    """After a the model rules out the b that the constraint asks for; after b it does not. P = ½ · ½."""

    def of(row):
        second = [EVEN, A, EVEN][0 if row[0] == 3 else row[0]]
        return [EVEN, second, END]

    constraint, estimates = regex("(a|b)b"), []
    for seed in range(15):
        found = evidence(Fixed(of), constraint, 3, seed, particles=16, resample=resample)
        assert found.tokens[:, 0].eq(2).all()
        assert len(found.texts) == len(found.log_weights) <= 16
        estimates.append(math.exp(found.log_evidence))
    mean, spread = torch.tensor(estimates).mean(), torch.tensor(estimates).std() / 15**0.5
    assert abs(mean - 0.25) < 4.5 * spread + 1e-6


def test_no_particle_lives():
    with pytest.raises(EvidenceError, match="no particle lives"):
        evidence(Fixed(lambda row: [A, A, END]), regex("bb"), 3, 0, particles=4)
    with pytest.raises(EvidenceError, match="−inf for every token"):
        evidence(Fixed(lambda row: [[0.0] * 4, A, END]), regex("aa"), 3, 0)


# ---------------------------------------------------------------------------------------------------- the model that ships


@pytest.mark.long
@pytest.mark.parametrize(
    ("schedule", "confidence"), [(linear, margin), (timesteps(), negative_entropy), (threshold(0.5), top)]
)
@pytest.mark.parametrize(
    ("constraint", "steps", "block", "temperature"),
    [(WORDS, 3, None, 1.0), (ITEM, 4, 16, 0.0), (WORDS, None, 5, 2.0)],
)
def test_every_text_satisfies_the_constraint(constraint, confidence, schedule, steps, block, temperature):
    ids = lm().ids("Once there was a dog.", 20)
    found = denoise(
        lm(), ids, constraint, steps=steps, block=block, schedule=schedule, confidence=confidence,
        temperature=temperature, particles=2, seed=5,
    )  # fmt: skip
    assert all(map(constraint.accepts, found.texts))
    assert not (found.tokens == lm().mask_token_id).any()
    assert found.log_weights.isnan().all() == (temperature == 0)


def test_text_on_both_sides_is_kept_and_the_gap_is_filled_whole():
    ids = lm().ids("One day, a girl saw a", 6, "in the park. She was happy.")
    found = denoise(lm(), ids, regex("( [a-z]+)+"), particles=3)
    given = ids != lm().mask_token_id
    assert (found.tokens[:, given] == ids[given]).all()
    assert lm().eos_token_id not in found.tokens
    assert all(map(regex("( [a-z]+)+").accepts, found.texts))


def test_parts_of_a_canvas_have_their_own_constraints():
    ids = lm().ids("The", 4, "and the", 4, "ran.")
    (where,) = (ids == lm().mask_token_id).nonzero(as_tuple=True)
    first, second = where[:4].tolist(), where[4:].tolist()
    animal, name = regex(" (big|small) [a-z]+"), regex(" [A-Z][a-z]+")
    parts = {range(first[0], first[-1] + 1): animal, range(second[0], second[-1] + 1): name}
    found = denoise(lm(), ids, parts, particles=3)
    pieces = [tt.Vocabulary.from_tokenizer(lm().tokenizer).token_bytes[v] for v in found.tokens[0].tolist()]
    assert animal.accepts(b"".join(pieces[t] for t in first))
    assert name.accepts(b"".join(pieces[t] for t in second))


def test_a_seed_gives_a_text_again_and_temperature_zero_needs_none():
    ids = lm().ids("The dog was", 6)
    texts = [denoise(lm(), ids, WORDS, particles=8, seed=seed).texts for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]
    calm = [denoise(lm(), ids, WORDS, temperature=0, seed=seed) for seed in (1, 2)]
    assert calm[0].texts == calm[1].texts
    with pytest.raises(EvidenceError, match="nothing is drawn"):
        calm[0].field()


def test_fields_of_filled_canvases_are_read_as_json():
    found = denoise(lm(), lm().ids("She has", 24), ITEM, particles=16, steps=12)
    cats = torch.tensor([json.loads(text)["kind"] == "cat" for text in found.texts])
    share = found.log_weights.softmax(0)[cats].sum().item()
    assert found.field("kind").estimate("cat").value == pytest.approx(share)
    with pytest.raises(EvidenceError, match="no answer has 'name'"):
        found.field("name")


def test_what_cannot_be_filled_is_refused():
    with pytest.raises(EvidenceError, match="no text fills canvas 0"):
        denoise(lm(), torch.cat([lm().ids("a", 3, "b"), torch.tensor([2])]), {range(0, 6): regex(" a x+ c")})
    with pytest.raises(ShapeError, match="the model's mask"):
        denoise(lm(), lm().ids("no mask"), WORDS)
    with pytest.raises(ContextTooLong, match="80 positions, but the model has 64"):
        denoise(lm(), lm().ids(80), WORDS)


# ----------------------------------------------------------------------------------------------------- schedules and models


def counts(schedule, size, steps):
    sure, out = torch.rand(1, size, generator=torch.Generator().manual_seed(0)), []
    for step in range(steps):
        chosen = schedule(sure.log(), step, steps)
        assert sure[chosen].min() >= sure[~chosen].max() if 0 < chosen.sum() < size else True
        out.append(int(chosen.sum()))
        sure[chosen] = 0
    return out


def test_schedules_are_those_of_the_models():
    assert counts(linear, 10, 4) == [3, 3, 2, 2]  # LLaDA: 10 // 4 each, the rest to the first steps
    assert counts(linear, 6, 3) == [2, 2, 2]
    # Dream: ⌊left · (1 − s / t)⌋, all that is left in the last step
    assert counts(timesteps(), 10, 5)[:4] == [1, 2, 2, 2]
    sure = torch.tensor([[0.95, 0.2, 0.91], [0.1, 0.3, 0.2]]).log()
    assert threshold(0.9)(sure, 0, 9).tolist() == [[True, False, True], [False, True, False]]


class Network(torch.nn.Module):
    """The published interface of LLaDA and Dream: ``model(input_ids=ids).logits``, the mask in the configuration."""

    def __init__(self, kind):
        super().__init__()
        self.config = SimpleNamespace(model_type=kind, mask_token_id=4, max_sequence_length=8)
        self.scale = torch.nn.Parameter(torch.tensor(1.0))

    def forward(self, input_ids):
        at = torch.arange(input_ids.shape[1])[None, :, None]
        return SimpleNamespace(
            logits=self.scale * (at + torch.arange(7.0)).expand(len(input_ids), -1, -1) % 5
        )


def test_dream_reads_a_position_one_before():
    tokens = type("Tokens", (), {"eos_token_id": 0, "__len__": lambda self: 6})()
    ids = torch.tensor([[1, 4, 4, 2]])
    plain, dream = (tt.lm.MaskedLM(Network(kind), tokens).log_probs(ids)[0] for kind in ("llada", "Dream"))
    assert plain.shape == (4, 6)
    assert (plain[:, 4] == -torch.inf).all()
    torch.testing.assert_close(plain.exp().sum(-1), torch.ones(4))
    torch.testing.assert_close(dream[1:], plain[:-1])
    torch.testing.assert_close(dream[0], plain[0])


def test_the_masked_model_that_ships():
    assert sum(path.stat().st_size for path in MASKED_LM_PATH.iterdir()) < 1_000_000
    card = (MASKED_LM_PATH / "README.md").read_text(encoding="utf-8")
    assert "CDLA-Sharing-1.0" in card
    assert "nats per token" in card
    text = "One day, a little girl named Lily went to the park with her mom. She saw a big dog."
    ids = lm().ids(text, [2] * 20)[:48]
    hidden = torch.rand(200, len(ids), generator=torch.Generator().manual_seed(0)) < 0.3
    log_probs = lm().log_probs(torch.where(hidden, lm().mask_token_id, ids))
    nats = -log_probs.gather(2, ids.expand(200, -1)[..., None])[..., 0][hidden].mean()
    assert nats < 1.0  # seven tenths of the text are there
