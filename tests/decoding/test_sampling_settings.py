"""Temperature, truncation, greedy, chats, descriptions, compiled constraints; and what generate does not take."""

import copy
import json
import math
import re
from typing import Annotated, Literal

import networks
import pytest
import torch
from pydantic import BaseModel, Field

import tractile as tt
from tractile.constraints import output_type
from tractile.errors import EvidenceError, UnknownArgument
from tractile.inference.smc import GCDProposal, LMProposal, LookaheadProposal, Truncated

MODEL, TOKENIZER = tt.embedded.load_lm()
PROMPT = "Tom has a pet. It is a"
NAME = tt.constraints.regex(r" [A-Z][a-z]{2,9}\.")
WORD = Literal[" cat", " dog", " bird"]


class Pet(BaseModel):
    """A pet of the story."""

    kind: Literal["cat", "dog"]
    age: Annotated[int, Field(ge=1, le=9, description="in years")]


# ------------------------------------------------------------ the target, by enumeration

LM = tt.lm.TableLM(
    {
        (): torch.tensor([0.40, 0.30, 0.20, 0.10]).log(),
        (1,): torch.tensor([0.05, 0.15, 0.35, 0.45]).log(),
        (2,): torch.tensor([0.32, 0.22, 0.18, 0.28]).log(),
    }
)
FA = tt.Automaton.from_edges(
    [(0, [1, 2, 3], 1), (1, [0, 2], 2), (1, 3, 3), (2, [0, 1, 2, 3], 4), (3, [1, 3], 4)], 0, [4], 4
)


def kept(probs, allowed, top_k, top_p):
    """The tokens that truncation keeps, one by one."""
    order = sorted(allowed, key=lambda token: -probs[token])[: top_k or len(allowed)]
    total, found, mass = sum(probs[token] for token in order), [], 0.0
    for token in order:
        if top_p is not None and found and mass >= top_p * total - 1e-12:
            break
        found.append(token)
        mass += probs[token]
    return found


def target(top_k, top_p):
    """p(x) 1[x ∈ C] 1[every token is kept], for all texts of three tokens."""
    found = {}

    def grow(prefix, weight):
        if len(prefix) == 3:
            found[prefix] = weight
            return
        LM.start([list(prefix)])
        probs = LM.log_probs()[0].exp().tolist()
        query = tt.gcd(FA, horizon=3).start(batch=1)
        for token in prefix:
            query.advance(torch.tensor([token]))
        for token in kept(probs, query.mask()[0].nonzero()[:, 0].tolist(), top_k, top_p):
            grow((*prefix, token), weight * probs[token])

    grow((), 1.0)
    return found


@pytest.mark.parametrize("top_k", [None, 1, 2, 3])
@pytest.mark.parametrize("top_p", [None, 0.3, 0.6, 1.0])
@pytest.mark.parametrize(
    "proposal", [GCDProposal, LMProposal, lambda: LookaheadProposal(1.0)], ids=["gcd", "lm", "pgcd"]
)
def test_the_target_of_truncation_is_that_of_enumeration(proposal, top_k, top_p):
    truth = target(top_k, top_p)
    hmm = tt.HMM.random(2, 4, seed=0)
    post = tt.smc(
        LM, [], FA, Truncated(proposal(), top_k, top_p), hmm, particles=3000, max_new_tokens=3, seed=1,
        potential=tt.inference.smc.PrefixPotential(),
    )  # fmt: skip
    assert post.log_evidence == pytest.approx(math.log(sum(truth.values())), abs=0.08)
    shares = post.group_by(lambda particle: particle.token_ids)
    assert set(shares) <= set(truth)
    for text, weight in truth.items():  # 3,000 particles: four standard deviations are below 0.037
        assert shares.get(text, 0.0) == pytest.approx(weight / sum(truth.values()), abs=0.05)


@pytest.mark.parametrize(
    "wrong", [{"top_k": 0}, {"top_k": 1.5}, {"top_p": 0}, {"top_p": 1.1}, {"top_p": "0.5"}]
)
def test_settings_out_of_range(wrong):
    with pytest.raises(EvidenceError, match=next(iter(wrong))):
        tt.generate(MODEL, TOKENIZER, PROMPT, WORD, max_new_tokens=8, **wrong)


# ------------------------------------------------------------ of a neural model


def greedy_by_hand(prompt, fa, budget):
    """The most probable allowed token each time, by full passes of the model."""
    ids, query = TOKENIZER(prompt).input_ids, tt.gcd(fa, horizon=budget).start(batch=1)
    found = []
    while TOKENIZER.eos_token_id not in found:
        with torch.no_grad():
            logits = MODEL(torch.tensor([[*ids, *found]])).logits[0, -1, : fa.vocab_size]
        found.append(int(logits.masked_fill(~query.mask()[0], -torch.inf).argmax()))
        query.advance(torch.tensor([found[-1]]))
    return TOKENIZER.decode(found, skip_special_tokens=True)


@pytest.mark.parametrize("how", [{"greedy": True}, {"temperature": 0}, {"top_k": 1}, {"top_p": 1e-9}])
def test_greedy_takes_the_most_probable_allowed_token(how):
    fa = tt.constraints.regex(r"( [a-z]{1,8}){2,6}\.").compile(TOKENIZER)
    expected = greedy_by_hand(PROMPT, fa, 16)
    for seed in (0, 1):
        assert (
            tt.generate(MODEL, TOKENIZER, PROMPT, fa, max_new_tokens=16, seed=seed, **how).strip()
            == expected.strip()
        )
    parts = list(tt.generate(MODEL, TOKENIZER, PROMPT, fa, max_new_tokens=16, stream=True, **how))
    assert parts[-1].text.strip() == expected.strip()


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_the_temperature_is_that_of_the_model(temperature):
    _, post = tt.generate(
        MODEL,
        TOKENIZER,
        PROMPT,
        WORD,
        max_new_tokens=8,
        temperature=temperature,
        posterior=True,
        particles=32,
    )
    lm = tt.TransformersLM(MODEL, TOKENIZER, temperature)
    other = tt.smc(lm, PROMPT, output_type(WORD).constraint, particles=32, max_new_tokens=8)
    assert post.log_evidence == pytest.approx(other.log_evidence, abs=1e-4)
    _, again = tt.generate(
        tt.TransformersLM(MODEL, TOKENIZER, 7.0), None, PROMPT, WORD, max_new_tokens=8, temperature=temperature,
        posterior=True, particles=32,
    )  # fmt: skip
    assert again.log_evidence == pytest.approx(post.log_evidence, abs=1e-4)


def test_a_temperature_is_refused_where_there_is_none():
    with pytest.raises(EvidenceError, match="TableLM has no temperature"):
        tt.generate(LM, None, [], FA, max_new_tokens=3, temperature=0.5)
    with pytest.raises(EvidenceError, match="temperature must be a number, 0 or more, not -1"):
        tt.generate(MODEL, TOKENIZER, PROMPT, WORD, temperature=-1)


def test_compiled_constraints_are_outputs():
    fa = NAME.compile(TOKENIZER)
    assert NAME.accepts(tt.generate(MODEL, TOKENIZER, "My name is", fa, max_new_tokens=10))
    found = tt.generate(MODEL, TOKENIZER, ["My name is", PROMPT], [fa, WORD], max_new_tokens=10)
    assert NAME.accepts(found[0])
    assert found[1] in (" cat", " dog", " bird")
    both = tt.multiply(fa, tt.constraints.regex(".*a.*").compile(TOKENIZER))
    text = tt.generate(MODEL, TOKENIZER, "My name is", both, max_new_tokens=10)
    assert NAME.accepts(text)
    assert "a" in text


# ------------------------------------------------------------ chats


@pytest.fixture
def chat_tokenizer():
    tokenizer = copy.deepcopy(TOKENIZER)
    tokenizer.chat_template = (
        "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
        "{% if add_generation_prompt %}bot:{% endif %}"
    )
    return tokenizer


CHAT = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Name a girl."}]


WIDE = networks.llama(1024, max_position_embeddings=1024)  # room for a long prompt


def seen_by(ask, model=MODEL):
    """The texts that the model reads first."""
    seen = []
    hook = model.register_forward_pre_hook(
        lambda _, __, given: seen.append(given["input_ids"]), with_kwargs=True
    )
    try:
        ask()
    finally:
        hook.remove()
    return [TOKENIZER.decode(row) for ids in seen for row in ids if len(row) > 2]


def test_a_chat_is_written_by_its_template(chat_tokenizer):
    def ask(prompt):
        return lambda: tt.generate(MODEL, chat_tokenizer, prompt, NAME, max_new_tokens=10, seed=3)

    text = "system: Be kind.\nuser: Name a girl.\nbot:"
    assert ask(CHAT)() == ask(chat_tokenizer(text, add_special_tokens=False).input_ids)()
    assert any(text in read for read in seen_by(ask(CHAT)))
    several = ask([CHAT, "My name is", CHAT[1:]])()
    assert len(several) == 3
    assert all(map(NAME.accepts, several))
    with tt.Engine(MODEL, chat_tokenizer) as engine:
        assert engine.submit(CHAT, NAME, max_new_tokens=10, seed=3).result() == ask(CHAT)()


def test_chats_that_cannot_be_written(chat_tokenizer):
    with pytest.raises(EvidenceError, match="no chat_template"):
        tt.generate(MODEL, TOKENIZER, CHAT, NAME, max_new_tokens=10)
    chat_tokenizer.chat_template = "{{ raise_exception('no system message here') }}"
    with pytest.raises(EvidenceError, match="no system message here"):
        tt.generate(MODEL, chat_tokenizer, CHAT, NAME, max_new_tokens=10)


def feed(animal: Literal["cat", "dog"]) -> str:
    """Feed an animal."""
    return animal


@pytest.mark.parametrize(
    ("output", "said"),
    [
        (Pet, ["in years", "A pet of the story", '"age"']),
        (list[Pet], ["in years"]),
        ({"type": "object", "properties": {"a": {"const": 1, "description": "the first"}}}, ["the first"]),
        ([feed], ["Feed an animal", '"feed"']),
        (feed, ["Feed an animal"]),
        (WORD, ["cat, dog, bird"]),
    ],
    ids=["class", "list", "schema", "tools", "tool", "choices"],
)
@pytest.mark.parametrize("chat", [False, True])
def test_the_prompt_describes_what_is_asked_for(chat_tokenizer, output, said, chat):
    prompt = CHAT if chat else PROMPT
    given = copy.deepcopy(prompt)

    def ask():
        tt.generate(WIDE, chat_tokenizer, prompt, output, max_new_tokens=40, particles=1, describe=True)

    (read, *_) = [text for text in seen_by(ask, WIDE) if "Answer" in text]
    assert all(one in read for one in said)
    assert ("Be kind" if chat else "Tom has a pet") in read
    assert prompt == given


def test_what_cannot_be_described():
    for output in (NAME, re.compile("a"), str):
        with pytest.raises(EvidenceError, match="describe=True needs"):
            tt.generate(MODEL, TOKENIZER, PROMPT, output, describe=True)
    with pytest.raises(EvidenceError, match="not token ids"):
        tt.generate(MODEL, TOKENIZER, [3, 4], WORD, describe=True)


# ------------------------------------------------------------ arguments that are not there


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("max_tokens", "max_new_tokens"), ("n", "samples"), ("messages", "prompt"), ("tempreature", "temperature"),
        ("max_new_token", "max_new_tokens"), ("topp", "top_p"), ("response_format", "output"), ("whitespaces", "whitespace"),
        ("quux", None),
    ],
)  # fmt: skip
def test_unknown_arguments_are_named_with_the_one_that_was_meant(given, meant):
    with pytest.raises(UnknownArgument, match=f"generate has no argument '{given}'") as raised:
        tt.generate(MODEL, TOKENIZER, PROMPT, WORD, **{given: 3})
    assert raised.value.meant == meant
    assert (f"did you mean {meant}=" in str(raised.value)) == (meant is not None)
    assert isinstance(raised.value, TypeError)


# ------------------------------------------------------------ the processor takes what generate takes


@pytest.mark.parametrize(
    "output",
    [
        Pet,
        {"properties": {"a": {"const": 1}}, "required": ["a"]},
        [feed],
        feed,
        re.compile(" [a-z]{3}"),
        WORD,
        NAME,
    ],
    ids=["class", "schema", "tools", "tool", "pattern", "choices", "constraint"],
)
def test_the_processor_takes_what_generate_takes(output):
    kind = output_type(output)
    prompt = TOKENIZER(PROMPT, return_tensors="pt", return_token_type_ids=False)
    processor = tt.ConstraintLogitsProcessor(output, tokenizer=TOKENIZER)
    ids = MODEL.generate(
        **prompt, max_new_tokens=40, logits_processor=[processor], pad_token_id=TOKENIZER.eos_token_id
    )
    text = TOKENIZER.decode(ids[0, prompt.input_ids.shape[1] :], skip_special_tokens=True)
    assert kind.accepts(text) or kind.accepts(f" {text}")


def test_the_processor_takes_an_output_for_each_prompt_and_options_of_json():
    rows = TOKENIZER([PROMPT, PROMPT], return_tensors="pt", return_token_type_ids=False)
    processor = tt.ConstraintLogitsProcessor(
        [Pet, WORD], tokenizer=TOKENIZER, order="declared", whitespace="none"
    )
    ids = MODEL.generate(
        **rows, max_new_tokens=40, logits_processor=[processor], pad_token_id=TOKENIZER.eos_token_id
    )
    pet, word = (TOKENIZER.decode(row, skip_special_tokens=True) for row in ids[:, rows.input_ids.shape[1] :])
    assert list(json.loads(pet)) == ["kind", "age"]
    assert " " not in pet.strip()
    assert word.strip() in ("cat", "dog", "bird")
    with pytest.raises(UnknownArgument, match=r"did you mean max_new_tokens"):
        tt.ConstraintLogitsProcessor(Pet, tokenizer=TOKENIZER, max_tokens=40)
