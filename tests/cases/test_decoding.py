"""Where texts are decoded: canvases, the processor for transformers, and vLLM's back end, called as vLLM calls it."""

import pytest
import torch
from cases import SMALL, asked, spelled

import tractile as tt
from tractile.decoding.vllm.structured_output import Spec, TractileBackend
from tractile.embedded import load_lm

SHORT, CANVAS, FEW = 12, 4, 2
"""Bytes of the texts, also on a canvas, and constraints of each table."""
EOS = SMALL.eos_token_id
TOKENIZER = load_lm()[1]
KINDS = {
    "regex": "REGEX",
    "json_schema": "JSON",
    "gbnf": "GRAMMAR",
    "lark": "GRAMMAR",
    "structural_tag": "STRUCTURAL_TAG",
}


def short(texts):
    return [text for text in texts if 0 < len(text.encode()) <= SHORT][:2]


def few(cases):
    """Some constraints of a table, with short texts that they have and have not."""
    for case in [case for case in cases if short(case.has)][:FEW]:
        yield case, short(case.has), short(case.lacks)


@pytest.mark.parametrize("cases", asked("canvas"))
def test_canvases_keep_texts_of_the_constraint_alone(cases):
    """On a canvas that is sure of one text, log Z is 0 if the constraint has it, and −∞ if not."""
    for case, has, lacks in few(cases):
        for text in has + lacks:
            if len(text.encode()) > (CANVAS if case.constraint.is_finite else 2):
                continue
            tokens = torch.tensor([[*spelled(text), EOS]])
            sure = torch.full((1, tokens.shape[1], len(SMALL)), -torch.inf).scatter(2, tokens[..., None], 0.0)
            try:
                log_z = tt.canvas(sure, case.constraint, vocab=SMALL).log_partition.item()
            except tt.errors.BudgetTooSmall:
                log_z = -torch.inf
            except tt.errors.TooManyStates:  # a canvas lists the states that it can meet
                continue
            assert log_z == (0 if text in has else -torch.inf), (case, text)


@pytest.mark.parametrize("cases", asked("transformers"))
def test_the_processor_of_transformers_offers_texts_of_the_constraint_alone(cases):
    for case, has, lacks in few(cases):
        automaton = case.constraint.compile(SMALL)
        for text in has + lacks:
            tokens, offered = [1, *spelled(text), EOS], []
            processor = tt.ConstraintLogitsProcessor(automaton, max_new_tokens=200)
            for at in range(1, len(tokens)):
                scores = processor(torch.tensor([tokens[:at]]), torch.zeros(1, len(SMALL)))
                offered.append(bool(scores[0, tokens[at]] > -torch.inf))
                if not offered[-1]:
                    break
            assert all(offered) == (text in has), (case, text)


@pytest.mark.parametrize("cases", asked("vllm"))
def test_the_back_end_of_vllm_takes_texts_of_the_constraint_alone(cases):
    """A request has its constraint as text: patterns, schemas, grammars and structural tags without options."""
    end = TOKENIZER.eos_token_id
    backend = TractileBackend(None, TOKENIZER, len(TOKENIZER))
    for case, has, lacks in few([case for case in cases if case.door in KINDS and not case.options]):
        grammar = backend.grammar(Spec(KINDS[case.door], case.given), {end}, lambda: 500)
        for text in has + lacks:
            tokens = [TOKENIZER.convert_tokens_to_ids(f"<0x{byte:02X}>") for byte in text.encode()] + [end]
            assert grammar.accept_tokens("r", tokens) == (text in has), (case, text)
            grammar.reset()
