"""What people write first: accepted where the meaning is plain, else a typed error that names the argument."""

import math

import numpy as np
import pytest
import torch

import tractile as tt
from tractile.embedded import load_lm
from tractile.inference import smc as sampling

MODEL, TOKENIZER = load_lm()
LM = tt.TransformersLM(MODEL, TOKENIZER)
V = LM.vocab_size
CAT = tt.constraints.regex(r" (cat|dog)")
P = "Once upon a time"
SMALL = {"max_new_tokens": 4}


def smc(lm=LM, prompt=P, fa=CAT, proposal="gcd", **settings):
    return tt.smc(lm, prompt, fa, proposal, particles=settings.pop("particles", 4), **SMALL, **settings)


@pytest.fixture(scope="module")
def compiled():
    return CAT.compile(tt.Vocabulary.from_tokenizer(TOKENIZER))


def test_a_constraint_is_compiled_for_the_language_model(compiled):
    post, expected = smc(), smc(fa=compiled)
    assert post.texts == expected.texts
    assert post.log_evidence == expected.log_evidence
    assert CAT.compiled_for(TOKENIZER) is CAT.compiled_for(tt.Vocabulary.from_tokenizer(TOKENIZER))
    assert CAT.compiled_for(TOKENIZER, EOS := TOKENIZER.eos_token_id) is CAT.compiled_for(TOKENIZER)
    assert CAT.compiled_for(TOKENIZER, EOS + 1).eos_token_id == EOS + 1
    both = tt.smc(LM, prompts=[P, P], fa=[CAT, compiled], proposal="gcd", particles=4, seed=[0, 0], **SMALL)
    assert both[0].texts == both[1].texts == post.texts


def test_a_constraint_forgets_old_vocabularies():
    c = tt.constraints.literal("a")
    vocabularies = [tt.Vocabulary([b"a", bytes([i]), None], 2) for i in range(100, 106)]
    first = [c.compiled_for(v) for v in vocabularies]
    assert len(c._compiled) == 4
    assert c.compiled_for(vocabularies[-1]) is first[-1]


def test_a_constraint_takes_a_tokenizer(compiled):
    for source in (TOKENIZER, TOKENIZER.backend_tokenizer):
        fa = CAT.compile(source, eos_token_id=TOKENIZER.eos_token_id)
        assert tt.gcd(fa, 4).start().mask().equal(tt.gcd(compiled, 4).start().mask())


def test_the_end_token_of_the_language_model_counts():
    lm = tt.TransformersLM(MODEL, TOKENIZER, eos_token_id=5)
    assert all(ids[-1] == 5 for ids in smc(lm).token_ids)


def test_other_language_models_have_their_vocabulary():
    vocab = tt.Vocabulary([b"a", b"b", None], 2)
    lm = tt.CircuitLM(tt.HMM.random(2, 3), 2, vocab)
    assert set(tt.smc(lm, [], tt.constraints.regex("a?b"), "gcd", max_new_tokens=3).texts) <= {"ab", "b"}
    with pytest.raises(
        tt.errors.EvidenceError, match=r"fa is a constraint, and .* no tokenizer; give tokenizer="
    ):
        tt.smc(tt.CircuitLM(tt.HMM.random(2, 3), 2), [], tt.constraints.regex("a?b"), "gcd")
    bare = tt.CircuitLM(tt.HMM.random(2, 3), 2)
    assert tt.smc(bare, [], tt.constraints.regex("a?b"), "gcd", max_new_tokens=3, tokenizer=vocab).ess > 0


def test_a_transformers_model_with_its_tokenizer():
    assert smc(MODEL, tokenizer=TOKENIZER).texts == smc().texts


@pytest.mark.parametrize("form", [list, tuple, np.array, torch.tensor, lambda ids: torch.tensor([ids])])
def test_token_ids_in_any_form(form):
    ids = TOKENIZER(P).input_ids
    assert smc(prompt=form(ids)).texts == smc(prompt=ids).texts


def test_a_function_is_a_potential_of_complete_texts():
    seen = set()

    def cats(text):
        seen.add(text)
        return float("cat" in text)

    post = smc(potential=cats, particles=32)
    assert seen <= {" cat", " dog"}
    assert post.best.text == " cat"
    expected = smc(potential=sampling.FunctionPotential(cats, sampling.at_end), particles=32)
    assert post.log_evidence == expected.log_evidence
    sampled = sampling.importance_sampling(LM, P, CAT, "gcd", particles=32, potential=cats, **SMALL)
    assert sampled.best.text == " cat"


def test_an_hmm_from_its_folder(tmp_path, compiled):
    hmm = tt.HMM.random(4, V, seed=3)
    hmm.save_pretrained(tmp_path)
    expected = smc(proposal="pgcd", hmm=hmm).log_evidence
    for folder in (tmp_path, str(tmp_path)):
        assert smc(proposal="pgcd", hmm=folder).log_evidence == pytest.approx(expected)
    assert tt.pgcd(tmp_path, compiled, 4).start().mask().equal(tt.pgcd(hmm, compiled, 4).start().mask())


@pytest.mark.parametrize(
    "run",
    [
        lambda **a: tt.decoding.beam_search(**a, beams=2)[0].text,
        lambda **a: sampling.mcmc(**a, proposal="gcd", samples=4, burn_in=0).samples[0].text,
        lambda **a: sampling.resample_move(**a, proposal="gcd", particles=2).texts[0],
        lambda **a: sampling.importance_sampling(**a, proposal="gcd", particles=2).texts[0],
    ],
    ids=["beam_search", "mcmc", "resample_move", "importance_sampling"],
)
def test_every_sampler_takes_them(run):
    given = {"lm": MODEL, "prompt": P, "fa": CAT, "tokenizer": TOKENIZER, **SMALL}
    assert run(**given) in (" cat", " dog")


def test_budgets_that_fit_no_prompts_are_refused():
    """Rows of one prompt are equal in the first call; other numbers of budgets than prompts show in that."""
    processor = tt.ConstraintLogitsProcessor(CAT, max_new_tokens=[4, 5], tokenizer=TOKENIZER)
    with pytest.raises(tt.errors.EvidenceError, match="a list of 2 was given"):
        processor(torch.tensor([[3], [4], [5], [6]]), torch.zeros(4, V))
    processor(torch.tensor([[3], [3], [5], [5]]), torch.zeros(4, V))
    processor.reset()
    processor(torch.tensor([[3], [3], [3], [3]]), torch.zeros(4, V))


WRONG = {
    "a model alone": ({"lm": MODEL}, "LlamaForCausalLM without its tokenizer; give tokenizer="),
    "a model's name": ({"lm": "gpt2"}, "lm is the text 'gpt2'; load the model"),
    "no model": ({"lm": {}}, "lm is a dict, which lacks vocab_size, start"),
    "prompts for a prompt": ({"prompt": [P, P]}, r"prompt is 2 prompts; give several as prompts="),
    "lists of ids for a prompt": ({"prompt": [[3, 4], [5]]}, r"prompt is 2 prompts"),
    "a chat": ({"prompt": [{"role": "user", "content": P}]}, "prompt is a chat"),
    "bytes": ({"prompt": b"Once"}, "prompt must be a text or token ids"),
    "truth values": ({"prompt": [1, True]}, "prompt must be a text or token ids"),
    "negative ids": ({"prompt": [3, -1]}, "prompt has the token -1"),
    "a batch of ids": ({"prompt": torch.ones(2, 3, dtype=torch.long)}, "prompt must be a text or token ids"),
    "a fraction of a particle": ({"particles": 2.5}, "smc: particles must be a whole number, 1 or more, not 2.5"),
    "a pattern for an automaton": ({"fa": r"\d+"}, "fa must be an automaton"),
    "a list of constraints": ({"fa": [CAT]}, r"fa is a list of 1; give prompts="),
    "a number for an HMM": ({"hmm": 3}, "hmm must be a tt.HMM or the folder of one"),
    "a number for a potential": ({"potential": 3}, "potential must be a tt.inference.smc.Potential or a function"),
    "a class of potentials": ({"potential": sampling.PrefixPotential}, "potential must be a tt.inference.smc.Potential"),
    "a class of proposals": ({"proposal": sampling.GCDProposal}, r"proposal must be .* give GCDProposal\(\)"),
    "an unknown proposal": ({"proposal": "best"}, "unknown proposal 'best': choose one of lm, lcd, gcd"),
    "a number for a scheme": ({"resampling": 3}, "resampling must be one of multinomial"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said(case):
    given, message = WRONG[case]
    with pytest.raises((tt.errors.EvidenceError, tt.errors.ShapeError), match=message):
        smc(**given)


def test_what_is_wrong_elsewhere_is_said(compiled):
    hmm = tt.HMM.random(2, V)
    for call, message in [
        (lambda: tt.smc(LM, prompts=P, fa=CAT), "prompts must be a list of prompts"),
        (lambda: tt.smc(LM, prompts=[P, 3], fa=CAT), r"prompts\[1\] must be a text"),
        (lambda: tt.smc(LM, P, CAT, "gcd", max_new_tokens=2.5), "max_new_tokens must be a whole number"),
        (lambda: tt.smc(LM, prompts=[P] * 4, fa=CAT, proposal="gcd", max_new_tokens=[4, 4]), "2 entries for 4"),
        (lambda: tt.gcd(CAT, 4), "gcd: automaton is a constraint that has not been compiled; give constraint.compile"),
        (lambda: tt.lcd(CAT), "lcd: automaton is a constraint that has not been compiled"),
        (lambda: tt.pgcd(hmm, CAT, 4), "pgcd: automaton is a constraint that has not been compiled"),
        (lambda: tt.pgcd(3, compiled, 4), "pgcd: chain must be"),
        (lambda: tt.gcd(compiled, 4.5), "gcd: horizon must be a whole number"),
        (lambda: tt.gcd(compiled, 4).start(4, [4, 4]), "budgets has 2 entries for 4 rows"),
        (lambda: tt.gcd(compiled, 4).start(1, 3.5), "budgets must be whole numbers"),
        (lambda: sampling.ConstraintPotential(CAT), "ConstraintPotential: fa is a constraint that has not been compiled"),
        (lambda: tt.ConstraintLogitsProcessor(CAT), "fa is a constraint that has not been compiled"),
        (lambda: tt.ConstraintLogitsProcessor(compiled, max_new_tokens=2.5), "max_new_tokens must be a whole number"),
        (lambda: tt.ConstraintLogitsProcessor(compiled, max_new_tokens=[]), "max_new_tokens is empty"),
        (lambda: tt.ConstraintLogitsProcessor(compiled, prefix=-1), "prefix must be a whole number, 0 or more"),
        (lambda: sampling.mcmc(LM, P, CAT, 3), "proposal must be"),
        (lambda: sampling.resample_move(LM, P, CAT, "gcd", resampling="no such"), "unknown resampling"),
        (lambda: CAT.compile("gpt2"), "vocab is 'gpt2'; give a tokenizer"),
        (lambda: CAT.compile(None), "vocab is None"),
    ]:  # fmt: skip
        with pytest.raises((tt.errors.EvidenceError, tt.errors.ShapeError), match=message):
            call()


@pytest.mark.parametrize("budget", ["4", "40", b"4", 4.0, None, True, 0, -1, {"a": 4}], ids=repr)
def test_a_budget_of_another_type_is_named(compiled, budget):
    """A text is no list of its letters; nor is any other value one budget for each prompt."""
    hmm = tt.HMM.random(2, V)
    given = {"max_new_tokens": budget}
    for ask in (
        lambda: tt.smc(LM, P, CAT, "gcd", **given),
        lambda: tt.smc(LM, prompts=[P, P], fa=CAT, proposal="gcd", **given),
        lambda: tt.smc(LM, prompts=[P, P], fa=CAT, proposal="gcd", max_new_tokens=[4, budget]),
        lambda: tt.generate(LM, None, P, CAT, **given),
        lambda: tt.generate(LM, None, [P, P], CAT, **given),
        lambda: tt.decoding.beam_search(LM, P, CAT, **given),
        lambda: tt.decoding.speculative(LM, P, CAT, hmm, **given),
        lambda: sampling.mcmc(LM, P, CAT, "gcd", samples=2, **given),
        lambda: sampling.importance_sampling(LM, P, CAT, "gcd", **given),
        lambda: tt.ConstraintLogitsProcessor(compiled, max_new_tokens=[budget]),
        lambda: tt.ConstraintLogitsProcessor(compiled, max_new_tokens=[4, budget]),
    ):
        with pytest.raises(
            tt.errors.EvidenceError, match=r"max_new_tokens(\[1\])? must be a whole number, 1 or more, not"
        ):
            ask()


def test_tokens_are_bytes():
    with pytest.raises(tt.errors.FormatError, match=r"token 0 is 'a', a str; give bytes: token.encode\(\)"):
        tt.Vocabulary(["a", "b"], 0)
    with pytest.raises(tt.errors.FormatError, match="token_bytes is a bytes"):
        tt.Vocabulary(b"abc", 0)
    with pytest.raises(tt.errors.FormatError, match=f"token_bytes is a {type(TOKENIZER).__name__}"):
        tt.Vocabulary(TOKENIZER, 0)
    with pytest.raises(tt.errors.ShapeError, match="eos_token_id is None"):
        tt.Vocabulary([b"a", None], None)


def test_an_hmm_of_arrays_and_lists():
    initial, transition, emission = [0.25, 0.75], [[0.5, 0.5], [1, 0]], [[0.2, 0.8, 0], [1, 0, 0]]
    hmm = tt.HMM(initial, transition, emission)
    assert hmm.emission_probs.dtype == torch.float32
    arrays = tt.HMM(np.array(initial), np.array(transition), np.array(emission))
    assert arrays.emission_probs.dtype == torch.float64
    mixed = tt.HMM(torch.tensor(initial), np.array(transition), emission)
    assert mixed.initial_probs.dtype == mixed.emission_probs.dtype == torch.float64
    for other in (arrays, mixed):
        rows = [[0, 1], [1, 1]]
        expected = tt.log_marginal(hmm, torch.tensor(rows))
        for form in (list, np.array, torch.tensor):
            torch.testing.assert_close(tt.log_marginal(other, form(rows)), expected, rtol=1e-5, atol=1e-6)
    arrays.emission_probs[0, 0] = 9  # the arrays are not the HMM's own
    for wrong in ("a", None, [[1], [1, 2]]):
        with pytest.raises(
            tt.errors.ShapeError, match="initial must be a tensor, an array or a list of numbers"
        ):
            tt.HMM(wrong, transition, emission)
    with pytest.raises(tt.errors.EvidenceError, match="rows of equal length"):
        tt.log_marginal(hmm, [[0], [0, 1]])


def test_padded_vocabularies_have_automata_of_their_own():
    """Two vocabularies of one tokenizer, one with rows of padding: the same fingerprint, other sizes."""
    constraint = tt.constraints.regex("a+")
    plain, padded = tt.Vocabulary([b"a", None], 1), tt.Vocabulary([b"a", None, None, None], 1)
    assert plain.fingerprint == padded.fingerprint
    assert [constraint.compiled_for(vocab).vocab_size for vocab in (plain, padded, plain)] == [2, 4, 2]
    assert constraint.compiled_for(plain) is constraint.compiled_for(plain)


def test_seeds_are_the_numbers_of_64_bits_and_no_others():
    for seed in (-(1 << 63), (1 << 64) - 1):
        assert len(smc(particles=2, seed=seed).token_ids) == 2
    for seed in (-(1 << 63) - 1, 1 << 64, 0.5, True):
        with pytest.raises(tt.errors.EvidenceError, match="seed"):
            smc(particles=2, seed=seed)


@pytest.mark.parametrize("wrong", ["few", [object()], [[1, 2], [3]], 0.5, [True, False], 1j])
def test_what_is_no_budget_is_named(compiled, wrong):
    query = tt.gcd(compiled, horizon=8)
    with pytest.raises(tt.errors.ShapeError, match="must be whole numbers"):
        query.start(batch=2, budgets=wrong)


@pytest.mark.parametrize("wrong", ["much", [], torch.zeros(3), math.nan, -0.1, True, None])
def test_a_threshold_is_a_number(wrong):
    with pytest.raises(tt.errors.EvidenceError, match="ess_threshold must be a number, 0 or more"):
        smc(ess_threshold=wrong)
