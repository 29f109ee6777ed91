"""vLLM's second model runner on CPU tensors, as far as its logits processors meet it."""

import random
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import torch

import tractile as tt
from tractile.decoding.request import read_request
from tractile.decoding.vllm import VLLMRowProcessor
from tractile.embedded import load_lm

TOKENIZER = load_lm()[1]
V, SLOTS, LENGTH = len(TOKENIZER), 5, 40
EOS = TOKENIZER.eos_token_id


@dataclass
class Params:
    """The part of ``SamplingParams`` that is read."""

    max_tokens: int
    extra_args: dict | None = None


class Masks(VLLMRowProcessor):
    tokenizer = TOKENIZER


class Guided(VLLMRowProcessor):
    tokenizer = TOKENIZER
    hmm = tt.HMM.random(4, V, seed=1, dtype=torch.float64)


WISHES = [
    None,
    {"regex": r" [a-z]+( and [a-z]+)*\."},
    {"regex": r" [a-z]+( and [a-z]+)*\.", "max_new_tokens": 7},
    {"choice": [" yes", " no", " maybe not"], "max_new_tokens": 5},
    {"regex": r"(a|b)*c", "strength": 0.5, "max_new_tokens": 6},
    {"keywords": [["dog"]], "options": {"word_boundaries": False}, "hmm": False},
]


def check_rows(runner):
    """Rows of requests that come and go are those of processors of their own."""
    for _ in range(14):
        for slot in range(SLOTS):
            if slot not in runner.live and runner.random.random() < 0.5:
                runner.add(slot, runner.random.choice(WISHES))
        if runner.live:
            runner.step()


def check_a_return(runner):
    """After a preemption the slot is filled with the prompt and the tokens written so far."""
    a = TOKENIZER.convert_tokens_to_ids("a")
    runner.add(2, {"regex": "(a|b)*c", "max_new_tokens": 4}, output=[a, a])
    runner.step()


class Runner:
    """The second model runner: slots with tensors of tokens and lengths; rows in any order of requests, drafts after each."""

    def __init__(self, adapter, seed):
        self.random, self.generator = random.Random(seed), torch.Generator().manual_seed(seed)
        self.adapter = adapter
        self.states = self.slots()
        config = SimpleNamespace(model_config=SimpleNamespace(max_model_len=LENGTH))
        self.processor = self.built(config)
        self.live = {}

    def slots(self):
        return SimpleNamespace(
            device=torch.device("cpu"),
            max_num_reqs=SLOTS,
            vocab_size=V,
            all_token_ids=SimpleNamespace(gpu=torch.zeros(SLOTS, LENGTH, dtype=torch.int32)),
            prompt_len=SimpleNamespace(np=np.zeros(SLOTS, np.int32)),
            total_len=SimpleNamespace(gpu=torch.zeros(SLOTS, dtype=torch.int32)),
        )

    def built(self, config):
        return self.adapter(config, self.states)

    def context(self, **layout):
        return SimpleNamespace(**layout)

    def add(self, slot, wish, output=()):
        prompt = [3] * self.random.randrange(1, 9)
        params = Params(16, None if wish is None else {"tractile": wish})
        self.adapter.validate_params(params)
        tokens = [*prompt, *output]
        self.states.prompt_len.np[slot] = len(prompt)
        self.states.total_len.gpu[slot] = len(tokens)
        self.states.all_token_ids.gpu[slot, : len(tokens)] = torch.tensor(tokens, dtype=torch.int32)
        assert self.processor.add_request(slot, params) == (wish is not None)
        self.live[slot] = (params, wish)

    def output(self, slot):
        start, end = int(self.states.prompt_len.np[slot]), int(self.states.total_len.gpu[slot])
        return self.states.all_token_ids.gpu[slot, start:end].tolist()

    def step(self):
        self.processor.apply_staged_writes()
        slots = self.random.sample(sorted(self.live), self.random.randint(1, len(self.live)))
        rows, drafts = [], {}
        for slot in slots:
            drafts[slot] = self.draft(slot)
            rows += [
                (slot, i, ([3, *self.output(slot)][-1:] + drafts[slot])[i])
                for i in range(len(drafts[slot]) + 1)
            ]
        logits = torch.randn(len(rows), V + 3, generator=self.generator, dtype=torch.float64)
        context = self.context(
            expanded_idx_mapping=torch.tensor([r[0] for r in rows]),
            expanded_local_pos=torch.tensor([r[1] for r in rows]),
            input_ids=torch.tensor([r[2] for r in rows]),
            idx_mapping_np=np.array(slots),
        )
        found = self.processor.apply(logits.clone(), context)
        for (slot, position, _), row, raw in zip(rows, found, logits, strict=True):
            prefix = self.output(slot) + drafts[slot][:position]
            if self.valid(slot, prefix):
                torch.testing.assert_close(row, self.alone(slot, prefix, raw), rtol=1e-9, atol=1e-9)
        first = {r[0]: i for i, r in reversed(list(enumerate(rows)))}
        for slot in slots:
            self.accept(slot, drafts[slot], found[first[slot] :])

    def accept(self, slot, draft, rows):
        """Take the tokens of the draft that its rows allow, up to some length, and one drawn after them."""
        most, taken = self.random.randint(0, len(draft)), 0
        while taken < most and rows[taken, draft[taken]].isfinite():
            taken += 1
        tokens = [*draft[:taken], int(rows[taken].softmax(0).multinomial(1, generator=self.generator))]
        tokens = tokens[: tokens.index(EOS) + 1] if EOS in tokens else tokens
        end = int(self.states.total_len.gpu[slot])
        self.states.all_token_ids.gpu[slot, end : end + len(tokens)] = torch.tensor(tokens, dtype=torch.int32)
        self.states.total_len.gpu[slot] = end + len(tokens)
        params = self.live[slot][0]
        if tokens[-1] == EOS or len(self.output(slot)) >= params.max_tokens:
            self.finished(slot)

    def finished(self, slot):
        params, _ = self.live.pop(slot)
        asked = read_request(params)
        if asked is not None:
            text = self.output(slot)[: asked.budget]
            assert self.adapter.automaton(asked.constraint).accepts_tokens(text)

    def draft(self, slot):
        """Tokens of a draft, of which some are not allowed."""
        left = self.live[slot][0].max_tokens - len(self.output(slot)) - 1
        out = []
        for _ in range(self.random.randint(0, max(0, min(3, left)))):
            allowed = self.alone(slot, self.output(slot) + out, torch.zeros(V + 3, dtype=torch.float64))
            choices = allowed[:V].isfinite().nonzero()[:, 0].tolist()
            out.append(
                self.random.choice(choices) if self.random.random() < 0.8 else self.random.randrange(V)
            )
            if not allowed[out[-1]].isfinite() or out[-1] == EOS:
                break
        return out

    def alone(self, slot, prefix, raw):
        params, wish = self.live[slot]
        if wish is None:
            return raw
        asked = read_request(params)
        single = tt.ConstraintLogitsProcessor(
            self.adapter.automaton(asked.constraint),
            self.adapter.hmm if asked.hmm else None,
            asked.budget,
            strength=asked.strength,
            mixture=asked.mixture,
        )
        found = None
        for n in range(len(prefix) + 1):
            found = single(torch.tensor([[3, *prefix[:n]]]), raw[None])[0]
        return found

    def valid(self, slot, prefix):
        """Whether a row can be reached: a draft is rejected where it leaves the constraint."""
        for n, token in enumerate(prefix):
            row = self.alone(slot, prefix[:n], torch.zeros(V + 3, dtype=torch.float64))
            if not row[token].isfinite():
                return False
        return True
