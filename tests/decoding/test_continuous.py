"""Constraints in the continuous batching of transformers, on its own classes and the embedded model."""

import copy
from types import SimpleNamespace

import pytest
import torch
from counting import HANGS
from transformers import GenerationConfig

import tractile as tt
from tractile.constraints import json_schema, regex
from tractile.decoding import continuous
from tractile.decoding.continuous import ContinuousConstraints, ContinuousRequest
from tractile.embedded import load_lm

pytest.importorskip(
    "transformers.generation.continuous_batching.cb_logits_processors",
    reason="transformers has no continuous batching before 5.0",
)
TOKENIZER = load_lm()[1]
EOS = TOKENIZER.eos_token_id
NAMES = regex(r" [A-Z][a-z]+( and [A-Z][a-z]+)*\.")
OBJECT = json_schema({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]})
PROMPT = TOKENIZER.encode("The name of the girl was")


def text_of(tokens):
    """The text of new tokens, a space at its beginning kept."""
    vocabulary = tt.Vocabulary.from_tokenizer(TOKENIZER)
    return b"".join(vocabulary.token_bytes[token] or b"" for token in tokens).decode()


def manager(**options):
    from transformers.generation.configuration_utils import ContinuousBatchingConfig

    config = GenerationConfig(
        do_sample=True, eos_token_id=EOS, pad_token_id=EOS, **options.pop("generation", {})
    )
    batching = ContinuousBatchingConfig(**{"num_blocks": 64, "max_batch_tokens": 64} | options)
    return load_lm()[0].init_continuous_batching(
        generation_config=config, continuous_batching_config=batching
    )


def run(manager, constraints, asked, count):
    """The tokens of each request."""
    constraints.attach(manager)
    manager.start()
    try:
        ids = [manager.add_request(PROMPT, **each) for each in asked]
        results = [manager.get_result(timeout=HANGS) for _ in range(count)]
    finally:
        manager.stop(block=True)
    assert not any(each.error for each in results)
    return ids, {each.request_id: each.generated_tokens for each in results}


def test_each_request_keeps_its_constraint_within_its_budget():
    torch.manual_seed(0)
    constraints = ContinuousConstraints(TOKENIZER)
    wanted = [(NAMES, 5), (OBJECT, 12), (NAMES, 9), (OBJECT, 20)] * 3
    asked = [constraints.request(constraint, n) for constraint, n in wanted]
    ids, found = run(manager(), constraints, [*asked, {"max_new_tokens": 4}], len(asked) + 1)
    for (constraint, n), request in zip(wanted, ids[:-1], strict=True):
        tokens = found[request]
        assert len(tokens) <= n
        assert constraint.accepts(text_of([token for token in tokens if token != EOS]))
    assert 0 < len(found[ids[-1]]) <= 4


def test_several_texts_of_one_request_are_each_constrained():
    constraints = ContinuousConstraints(TOKENIZER)
    generation = {"num_return_sequences": 3}
    _, found = run(manager(generation=generation), constraints, [constraints.request(NAMES, 8)], 3)
    assert len(found) == 3
    assert all(NAMES.accepts(text_of([t for t in tokens if t != EOS])) for tokens in found.values())


def state(tokens, request, name="req", reset=0):
    """A request as the engine holds it: with ``reset``, so many of its tokens were moved to its prompt."""
    return SimpleNamespace(
        state=SimpleNamespace(
            request_id=name,
            initial_tokens=[*PROMPT, *tokens[:reset]],
            _true_initial_tokens=len(PROMPT) if reset else 0,
            generated_tokens=list(tokens[reset:]),
            logit_processor_kwargs={key: value for key, value in request.items() if key == "tractile"},
        )
    )


def offered(constraints, *states):
    """The tokens offered to each request."""
    argument = constraints.prepare_tensor_args(list(states))
    scores = constraints(torch.zeros(len(states) + 1, len(TOKENIZER)), argument)
    assert bool((scores[-1] == 0).all())  # padding is left alone
    return [set(row.nonzero()[:, 0].tolist()) for row in scores[:-1] == 0]


def test_masks_are_those_of_gcd_along_a_text_also_after_it_was_moved_and_forgotten(monkeypatch):
    monkeypatch.setattr(continuous, "MOST_ROWS", 1)
    constraints = ContinuousConstraints(TOKENIZER)
    request, other = constraints.request(OBJECT, 20), constraints.request(NAMES, 6)
    query, tokens = tt.gcd(OBJECT.compile(constraints.vocabulary), 20), []
    query.start(1)
    generator = torch.Generator().manual_seed(0)
    while EOS not in tokens:
        allowed = query.mask()[0].nonzero()[:, 0]
        for reset in (0, len(tokens) // 2):
            rows = [state([], {}), state(tokens, request, reset=reset), state([], other, "other")]
            free, found, _ = offered(constraints, *rows)
            assert found == set(allowed.tolist())
            assert free == set(range(len(TOKENIZER)))
        tokens.append(int(allowed[torch.randint(len(allowed), (), generator=generator)]))
        query.advance([tokens[-1]])
    assert len(tokens) > 6
    assert EOS in offered(constraints, state(tokens[:-1], request))[0]
    assert EOS not in offered(constraints, state([], request))[0]  # another text of the same name
    outside = [next(iter(set(range(3, len(TOKENIZER))) - found))]
    assert offered(constraints, state(outside, request, "left")) == [{EOS}]


def test_what_cannot_be_kept_is_refused():
    constraints = ContinuousConstraints(TOKENIZER)
    with pytest.raises(tt.errors.BudgetTooSmall):
        constraints.request(OBJECT, 3)
    made = manager()
    made.continuous_batching_config.use_async_batching = True
    with pytest.raises(tt.errors.UnsupportedConstraint, match="use_async_batching"):
        constraints.attach(made)
    made.continuous_batching_config.use_async_batching = False
    made.continuous_batching_config.use_cuda_graph = (False, True)
    with pytest.raises(tt.errors.UnsupportedConstraint, match="use_cuda_graph"):
        constraints.attach(made)


def test_a_request_is_shared_by_its_copies():
    request = ContinuousConstraints(TOKENIZER).request(NAMES, 8)["tractile"]
    assert isinstance(request, ContinuousRequest)
    assert copy.deepcopy({"tractile": request})["tractile"] is request
