"""`ConstraintLogitsProcessor` in `model.generate`: sampling, beams and batches always satisfy the constraint."""

import math

import pytest
import torch
from networks import llama
from smc_reference import Fsa, as_automaton
from transformers import GenerationConfig, LlamaForCausalLM

import tractile as tt

V, EOS, PAD = 12, 2, 0
# The text is a run of 3s and 4s with exactly two 5s, the second the last; then the end.
EDGES = [(0, [3, 4], 0), (0, 5, 1), (1, [3, 4], 1), (1, 5, 2), (2, EOS, 3), (3, EOS, 3)]
FSA = Fsa(EDGES, 0, [3], V, EOS)
HMM = tt.HMM.random(4, V, seed=1, dtype=torch.float64)


@pytest.fixture(scope="module")
def model():
    return llama(V, initializer_range=0.4, bos_token_id=1, eos_token_id=EOS, pad_token_id=PAD)


# unequal lengths, padded on the left
PROMPTS = torch.tensor([[PAD, PAD, 1, 7], [1, 8, 9, 10], [PAD, 1, 5, 5]])


def generate(model, processor, prompts=PROMPTS, **settings):
    torch.manual_seed(3)
    output = model.generate(
        input_ids=prompts,
        attention_mask=(prompts != PAD).long(),
        logits_processor=[processor],
        pad_token_id=PAD,
        eos_token_id=EOS,
        **settings,
    )
    return output[:, prompts.shape[1] :].tolist()


def satisfied(tokens):
    if EOS not in tokens:
        return False
    text = tokens[: tokens.index(EOS) + 1]
    return FSA.accepts(text) and all(token in (EOS, PAD) for token in tokens[len(text) :])


@pytest.mark.parametrize("hmm", [None, HMM], ids=["gcd", "pgcd"])
@pytest.mark.parametrize("budget", [3, 4, 9])
@pytest.mark.parametrize(
    "settings",
    [
        {"do_sample": False},
        {"do_sample": True, "num_return_sequences": 20},
        {"do_sample": True, "temperature": 2.0, "top_k": 3, "num_return_sequences": 20},
        {"num_beams": 2, "do_sample": False},
        {"num_beams": 4, "do_sample": False, "num_return_sequences": 2},
        {"num_beams": 3, "do_sample": True},
    ],
    ids=["greedy", "sampling", "top-k", "beams", "many beams", "sampled beams"],
)
def test_every_output_satisfies_the_constraint_within_the_budget(model, settings, budget, hmm):
    processor = tt.ConstraintLogitsProcessor(as_automaton(FSA), hmm, max_new_tokens=budget)
    outputs = generate(model, processor, max_new_tokens=budget, **settings)
    returned = settings.get("num_return_sequences", 1)
    assert len(outputs) == 3 * returned
    if budget == 3 and "num_beams" in settings:
        # three tokens admit one sequence: no second beam can satisfy the constraint
        outputs = outputs[::returned]
    for tokens in outputs:
        assert satisfied(tokens), tokens


def test_out_of_budget_without_an_end_only_end_of_sequence_is_offered(model):
    """An automaton that also accepts a text without its end: the budget may be used up before the end."""
    open_ended = as_automaton(Fsa(EDGES, 0, [2, 3], V, EOS))
    processor = tt.ConstraintLogitsProcessor(open_ended, max_new_tokens=4)
    outputs = generate(model, processor, max_new_tokens=20, do_sample=True, num_return_sequences=20)
    assert all(map(satisfied, outputs))
    assert {tokens.index(EOS) for tokens in outputs} >= {3, 4}


def test_a_processor_can_be_used_again(model):
    processor = tt.ConstraintLogitsProcessor(as_automaton(FSA), max_new_tokens=8)
    first = generate(model, processor, do_sample=True, max_new_tokens=8)
    assert generate(model, processor, do_sample=True, max_new_tokens=8) == first
    shorter = PROMPTS[1:2, :2]
    assert all(map(satisfied, generate(model, processor, prompts=shorter, do_sample=True, max_new_tokens=8)))
    processor.reset()
    assert generate(model, processor, do_sample=True, max_new_tokens=8) == first


def truth(prefix, budget, logits, hmm=None, strength=1.0, mixture=None):
    """The formula of the module, of a query that reads the row from its beginning."""
    fa = as_automaton(FSA)
    query = (tt.gcd(fa, budget) if hmm is None else tt.pgcd(hmm, fa, budget)).start(1)
    for token in prefix:
        query.advance(torch.tensor([token]))
    if mixture is not None:
        mixed = mixture * logits.log_softmax(0) + (1 - mixture) * query.scores()[0]
        return mixed.masked_fill(~query.mask()[0], -math.inf)
    gain = torch.zeros(V)
    if hmm is not None:
        lookahead = query.lookahead()[0]
        lookahead[EOS] = 0.0  # complete
        gain = strength * (lookahead - query.log_lookahead()[0])
    return (logits + gain).masked_fill(~query.mask()[0], -math.inf)


@pytest.mark.parametrize(
    ("hmm", "strength", "mixture"),
    [(None, 1.0, None), (HMM, 1.0, None), (HMM, 0.5, None), (HMM, 1.0, 0.5), (HMM, 1.0, 1.0)],
)
def test_rows_that_grow_shrink_and_are_exchanged(hmm, strength, mixture):
    """Random walks: rows take back and append several tokens and are exchanged; scores are those of the formula."""
    generator, budget, prompt = torch.Generator().manual_seed(0), 7, [1, 9]
    for _ in range(6):
        processor = tt.ConstraintLogitsProcessor(
            as_automaton(FSA), hmm, budget, strength=strength, mixture=mixture
        )
        texts = [[3, 5, 4, 5, EOS, EOS, EOS], [5, 5, EOS, EOS, EOS, EOS, EOS], [5, 9, 9, 3, 4, 4, 3]]
        rows, length = texts, 0
        for _ in range(8):
            logits = torch.randn(3, V, generator=generator, dtype=torch.float64)
            scores = processor(torch.tensor([prompt + row[:length] for row in rows]), logits)
            for row, score, raw in zip(rows, scores, logits, strict=True):
                if (row[1] == 9 and length > 1) or EOS in row[:length]:
                    assert score.isfinite().nonzero().tolist() == [[EOS]]
                else:
                    expected = truth(row[:length], budget, raw, hmm, strength, mixture)
                    torch.testing.assert_close(score, expected, rtol=1e-6, atol=1e-6)
            length = int(torch.randint(7, (), generator=generator))
            rows = [rows[int(torch.randint(3, (), generator=generator))] for _ in rows]


@pytest.mark.parametrize("hmm", [None, HMM], ids=["gcd", "pgcd"])
def test_beams_of_equal_prompts_keep_their_own_budgets(model, hmm):
    prompts = PROMPTS[1:2].repeat(3, 1)
    for budgets in ([9, 3, 5], [3, 5, 9]):
        processor = tt.ConstraintLogitsProcessor(as_automaton(FSA), hmm, budgets)
        together = generate(model, processor, prompts, num_beams=3, do_sample=False, max_new_tokens=9)
        for budget, tokens in zip(budgets, together, strict=True):
            alone = tt.ConstraintLogitsProcessor(as_automaton(FSA), hmm, budget)
            (expected,) = generate(model, alone, prompts[:1], num_beams=3, do_sample=False, max_new_tokens=9)
            assert tokens[:budget] == expected[:budget]


@pytest.fixture(scope="module")
def assistant(model):
    """A model that agrees with the other one at some steps only."""
    torch.manual_seed(1)
    other = LlamaForCausalLM(model.config).eval()
    own = model.state_dict()
    other.load_state_dict(
        {k: v + 0.3 * v.std() * torch.randn_like(v) if v.ndim > 1 else v for k, v in own.items()}
    )
    other.generation_config.num_assistant_tokens = 4
    other.generation_config.assistant_confidence_threshold = 0.0
    return other


@pytest.mark.long
@pytest.mark.parametrize("hmm", [None, HMM], ids=["gcd", "pgcd"])
@pytest.mark.parametrize("budget", [3, 9, 17, 40])
def test_assisted_generation_is_greedy_generation(model, assistant, budget, hmm):
    """Drafts are verified with rows that grow by several tokens and shrink; the outputs are those without an assistant."""
    for prompt in (PROMPTS[0:1, 2:], PROMPTS[1:2], torch.tensor([[1, 3, 4, 3, 5, 4, 3, 4, 5]])):
        make = lambda: tt.ConstraintLogitsProcessor(as_automaton(FSA), hmm, budget)  # noqa: E731
        (expected,) = generate(model, make(), prompt, do_sample=False, max_new_tokens=budget)
        assert satisfied(expected)
        for helped in ({"assistant_model": assistant}, {"prompt_lookup_num_tokens": 5}):
            (tokens,) = generate(model, make(), prompt, do_sample=False, max_new_tokens=budget, **helped)
            assert tokens == expected


PREFIXED = torch.tensor([[PAD, PAD, 1, 7, 3, 5], [1, 8, 9, 10, 4, 9], [PAD, PAD, PAD, 1, 5, 5]])
# of the prompts' ends: "3 5", nothing, "5 5"; the last lacks only its end
LENGTHS, BUDGETS = ([2, 0, 2], [4, 7, 1])


@pytest.mark.parametrize("hmm", [None, HMM], ids=["gcd", "pgcd"])
def test_rows_with_prefixes_and_budgets_of_their_own(hmm):
    """Each row's scores are those of the formula from its own prefix, whatever the other rows do."""
    generator = torch.Generator().manual_seed(0)
    processor = tt.ConstraintLogitsProcessor(as_automaton(FSA), hmm, BUDGETS, prefix=LENGTHS)
    rows = [[], [], []]
    for _ in range(4):
        logits = torch.randn(3, V, generator=generator, dtype=torch.float64)
        ids = torch.cat([PREFIXED, torch.tensor(rows, dtype=torch.long).view(3, -1)], 1)
        scores = processor(ids, logits)
        for i, row in enumerate(rows):
            if EOS in row:
                assert scores[i].isfinite().nonzero().tolist() == [[EOS]]
                continue
            whole = [*PREFIXED[i, 6 - LENGTHS[i] :].tolist(), *row]
            expected = truth(whole, BUDGETS[i] + LENGTHS[i], logits[i], hmm)
            torch.testing.assert_close(scores[i], expected, rtol=1e-6, atol=1e-6)
        for row, score in zip(rows, scores, strict=True):
            row.append(int(score.softmax(0).multinomial(1, generator=generator)))
    assert rows[2][0] == EOS


# A run of 6s and 7s, an 8, then the end; other tokens and lengths than those of FSA.
OTHER = Fsa([(0, [6, 7], 0), (0, 8, 1), (1, EOS, 2), (2, EOS, 2)], 0, [2], V, EOS)


@pytest.mark.parametrize("hmm", [None, HMM], ids=["gcd", "pgcd"])
def test_rows_of_several_constraints_are_those_of_each_alone(hmm):
    """Rows of two prompts, two copies each, that grow, change places and lose tokens."""
    fas, budgets, prefixes = (as_automaton(FSA), as_automaton(OTHER)), (8, 6), (0, 1)
    both = tt.ConstraintLogitsProcessor(fas, hmm, budgets, prefix=prefixes)
    alone = [
        tt.ConstraintLogitsProcessor(fa, hmm, budget, prefix=prefix)
        for fa, budget, prefix in zip(fas, budgets, prefixes, strict=True)
    ]
    logits = torch.randn(4, V, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for grown in (
        [[], [], [], []],
        [[3], [4], [7], [8]],
        [[4, 5], [3, 3], [8, EOS], [7, 8]],  # the copies change places
        [[4, 5, 5], [4, 5, 3], [7, 8, EOS], [7, 8, EOS]],  # one is copied, the other dropped
        [[4], [4], [7], [7]],  # tokens are taken back
    ):
        ids = torch.tensor([[1, 6, *more] for more in grown])
        found = both(ids, logits)
        for place, one in enumerate(alone):
            rows = slice(2 * place, 2 * place + 2)
            torch.testing.assert_close(found[rows], one(ids[rows], logits[rows]), rtol=0, atol=0)


def test_constraints_for_each_prompt_must_fit_together():
    first, other = as_automaton(FSA), as_automaton(OTHER)
    with pytest.raises(tt.errors.EvidenceError, match=r"a list of 2 .* 3 rows"):
        tt.ConstraintLogitsProcessor([first, other], max_new_tokens=8)(
            torch.ones(3, 1, dtype=torch.long), torch.zeros(3, V)
        )
    with pytest.raises(tt.errors.EvidenceError, match=r"fa\[1\] must be an automaton"):
        tt.ConstraintLogitsProcessor([first, 3])
    with pytest.raises(tt.errors.EvidenceError, match="fa is empty"):
        tt.ConstraintLogitsProcessor([])
    with pytest.raises(tt.errors.VocabularyMismatch, match=rf"fa\[1\] has {V + 1} tokens, .*fa\[0\] {V};"):
        tt.ConstraintLogitsProcessor([first, as_automaton(Fsa(EDGES, 0, [3], V + 1, EOS))])


def test_a_budget_for_every_row_must_fit():
    fa, logits = as_automaton(FSA), torch.zeros(4, V)
    with pytest.raises(tt.errors.EvidenceError, match=r"a list of 2 .* 3 rows"):
        tt.ConstraintLogitsProcessor(fa, max_new_tokens=[5, 6])(
            torch.ones(3, 1, dtype=torch.long), logits[:3]
        )
    with pytest.raises(tt.errors.BudgetTooSmall) as caught:
        tt.ConstraintLogitsProcessor(fa, max_new_tokens=[5, 2])(torch.ones(4, 1, dtype=torch.long), logits)
    assert (caught.value.given, caught.value.needed, caught.value.prompt) == (2, 3, 1)
    with pytest.raises(tt.errors.BudgetTooSmall, match=r"^prompt 2 \(counted from 0\): no accepted"):
        tt.ConstraintLogitsProcessor([fa, as_automaton(FSA), fa], max_new_tokens=[5, 5, 2])(
            torch.ones(6, 1, dtype=torch.long), torch.zeros(6, V)
        )
    with pytest.raises(tt.errors.BudgetTooSmall, match=r"^prompt 1 .* 2 tokens are needed, 1 given"):
        tt.ConstraintLogitsProcessor(fa, max_new_tokens=[2, 1], prefix=2)(
            torch.tensor([[1, 3, 5]] * 2), logits[:2]
        )
    with pytest.raises(tt.errors.BudgetTooSmall, match=r"^no accepted"):
        tt.ConstraintLogitsProcessor(fa, max_new_tokens=2)(torch.ones(4, 1, dtype=torch.long), logits)


@pytest.mark.parametrize(
    ("prefix", "budget", "needed"), [([5, 5, 3], 9, None), ([EOS], 9, None), ([3, 5], 1, 2), ([3, 4], 2, 3)]
)
def test_a_prefix_that_cannot_be_finished_is_refused(prefix, budget, needed):
    processor = tt.ConstraintLogitsProcessor(as_automaton(FSA), max_new_tokens=budget, prefix=len(prefix))
    with pytest.raises(tt.TractileError) as caught:
        processor(torch.tensor([[1, *prefix]]), torch.zeros(1, V))
    assert isinstance(caught.value, tt.errors.BudgetTooSmall if needed else tt.errors.EvidenceError)
    assert needed is None or (caught.value.given, caught.value.needed) == (budget, needed)


def test_outputs_beyond_the_vocabulary_are_never_offered():
    processor = tt.ConstraintLogitsProcessor(as_automaton(FSA), max_new_tokens=7)
    scores = processor(torch.tensor([[1]]), torch.zeros(1, V + 5))
    assert scores.shape == (1, V + 5)
    assert bool(scores[0, V:].isneginf().all())


def test_errors():
    fa = as_automaton(FSA)
    with pytest.raises(tt.errors.BudgetTooSmall):
        tt.ConstraintLogitsProcessor(fa, max_new_tokens=2)(torch.tensor([[1]]), torch.zeros(1, V))
    with pytest.raises(tt.errors.VocabularyMismatch):
        tt.ConstraintLogitsProcessor(fa, max_new_tokens=7)(torch.tensor([[1]]), torch.zeros(1, V - 1))
    for settings in ({"strength": -1}, {"strength": math.nan}, {"mixture": 1.5}, {"prefix": -1}):
        with pytest.raises(tt.errors.EvidenceError):
            tt.ConstraintLogitsProcessor(fa, HMM, **settings)
    with pytest.raises(tt.errors.EvidenceError, match="2 tokens, but"):
        tt.ConstraintLogitsProcessor(fa, max_new_tokens=7, prefix=2)(torch.tensor([[1]]), torch.zeros(1, V))
    with pytest.raises(tt.TractileError, match="end-of-sequence"):
        tt.ConstraintLogitsProcessor(as_automaton(Fsa(EDGES, 0, [3], V)), max_new_tokens=7)


WORD = r"[ab]{6}( [ab]{6}){0,9}\."


@pytest.mark.filterwarnings("ignore:Using the model-agnostic default:UserWarning")
@pytest.mark.parametrize(
    "settings", [{"max_new_tokens": 24}, {"max_length": 27}, {}, {"generation_config": 18}]
)
@pytest.mark.parametrize("decoding", [{"do_sample": True, "num_return_sequences": 10}, {"num_beams": 3}])
def test_the_budget_is_that_of_generate(settings, decoding):
    """Without a budget of its own the processor has the one of ``generate``, also its default of 20 tokens."""
    model, tokenizer = tt.embedded.load_lm()
    constraint = tt.constraints.regex(WORD)
    prompt = tokenizer("I am", return_tensors="pt", return_token_type_ids=False)
    processor = tt.ConstraintLogitsProcessor(constraint, tokenizer=tokenizer)
    if "generation_config" in settings:
        settings = {"generation_config": GenerationConfig(max_new_tokens=settings["generation_config"])}
    torch.manual_seed(0)
    ids = model.generate(
        **prompt, **settings, **decoding, logits_processor=[processor], pad_token_id=tokenizer.eos_token_id
    )
    for row in ids[:, prompt.input_ids.shape[1] :]:
        assert constraint.accepts(tokenizer.decode(row, skip_special_tokens=True))
        assert tokenizer.eos_token_id in row


def test_a_budget_that_generate_would_cut_is_refused(model):
    processor = tt.ConstraintLogitsProcessor(as_automaton(FSA), max_new_tokens=9)
    with pytest.raises(tt.errors.EvidenceError, match=r"max_new_tokens is 9, but generate ends after 8"):
        generate(model, processor, max_new_tokens=8)
    assert all(map(satisfied, generate(model, processor, max_new_tokens=9)))
    listed = tt.ConstraintLogitsProcessor(as_automaton(FSA), max_new_tokens=[4, 8, 5])
    assert all(map(satisfied, generate(model, listed, max_new_tokens=12)))


def test_one_processor_follows_the_budgets_of_several_calls(model):
    processor = tt.ConstraintLogitsProcessor(as_automaton(FSA))
    for budget in (4, 9, 3):
        processor.reset()
        assert all(map(satisfied, generate(model, processor, max_new_tokens=budget, do_sample=True)))
    processor.reset()
    with pytest.raises(tt.errors.BudgetTooSmall):
        generate(model, processor, max_new_tokens=2)


def test_an_assistant_has_the_budget_of_the_generate_that_it_helps(model):
    found = generate(
        model,
        tt.ConstraintLogitsProcessor(as_automaton(FSA)),
        PROMPTS[1:2],
        max_new_tokens=9,
        assistant_model=llama(V, initializer_range=0.4, bos_token_id=1, eos_token_id=EOS, pad_token_id=PAD),
    )
    assert all(map(satisfied, found))


def test_outside_of_generate_a_budget_must_be_given():
    with pytest.raises(tt.errors.EvidenceError, match="give max_new_tokens="):
        tt.ConstraintLogitsProcessor(as_automaton(FSA))(torch.tensor([[1]]), torch.zeros(1, V))


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("token", [3, 0])
def test_logits_that_are_no_numbers_are_refused(value, token):
    """Also those of a token that the constraint forbids: nothing is known of the others then."""
    processor = tt.ConstraintLogitsProcessor(as_automaton(FSA), max_new_tokens=8)
    logits = torch.zeros(3, V)
    logits[1, token] = value
    with pytest.raises(tt.errors.EvidenceError, match=r"NaN or \+∞ as a logit in row 1"):
        processor(torch.ones(3, 1, dtype=torch.long), logits)
