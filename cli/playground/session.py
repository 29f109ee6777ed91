"""The numbers that the playground shows: the distributions over the next token after a prefix, and particles.

    mask(v)      1[x_<t v can still become a text of C within the budget]                    gcd
    lm(v)        p_lm(v | prompt, x_<t)
    hmm(v)       p_hmm(v | x_<t),        given(v) = p_hmm(v | x_<t, C)                       pgcd
    success(v)   p_hmm(C | x_<t v),      success  = p_hmm(C | x_<t)                          lookahead
    guided(v)    ∝ lm(v) · success(v): what the sampler draws from; without an HMM ∝ lm(v) · mask(v)

If the automaton of C is too large to be materialised, the HMM is multiplied with one that may accept more (`coarse`), and
success is an upper bound. Results are plain JSON values; ``log_success`` is in nats, None for probability zero.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ...circuits.automaton import Automaton
from ...circuits.hmm import HMM
from ...constraints import Constraint, Limits, Vocabulary, explain
from ...decoding.request import KINDS, build_constraint
from ...errors import EvidenceError, FormatError
from ...inference import gcd, pgcd
from ...inference.arguments import whole
from ...inference.next_token.pgcd import PGCDQuery
from ...inference.smc import LookaheadProposal, Posterior, smc
from ...inference.smc.trace import END
from ...lm import CircuitLM, LanguageModel
from .picture import picture

SHOWN = 8  # most probable tokens shown of each distribution
MOST_TOKENS, MOST_PARTICLES = 256, 128
GUIDE_BYTES = 2**30  # memory for the backward messages of HMM × automaton
JSON_KINDS = ("json_schema", "tools", "structural_tag")
LINE_KINDS = ("keywords", "choice")


class Session:
    """One user's constraint, budget and prefix, with a language model and an HMM if there is one.

    Its methods raise :class:`VocabularyMismatch` if model, HMM and vocabulary do not belong together.
    """

    def __init__(
        self, lm: LanguageModel, vocab: Vocabulary, hmm: HMM | None = None, limits: Limits | None = None
    ) -> None:
        self.lm, self.vocab, self.hmm, self.limits = lm, vocab, hmm, limits or Limits()
        self.posterior: Posterior | None = None
        self._fa: Automaton | None = None
        self._generator = torch.Generator().manual_seed(0)

    def open(self, kind: str, text: str, prompt: str, budget: int) -> dict[str, Any]:
        """Build a constraint within the limits, for a prompt and a budget in tokens; describe it, with a picture if it is small.

        ``kind`` is a key of ``KINDS``; ``text`` is JSON for schemas and tools, one entry a line for keywords and choices. Raises
        a :class:`TractileError`; :class:`BudgetTooSmall` comes before the language model is called.
        """
        budget = at_most(budget, MOST_TOKENS, "playground: budget")
        if not isinstance(prompt, str) or not isinstance(text, str):
            raise FormatError("playground: the prompt and the constraint are texts")
        self.limits.check_size(text)
        constraint, fa = self.limits.run(lambda: self._built(kind, text))
        self._mask = self.limits.run(lambda: gcd(fa, budget).start(1))
        self._guide: PGCDQuery | None = None
        self._free: CircuitLM | None = None
        if self.hmm is not None:
            hmm = self.hmm
            self._guide = self.limits.run(lambda: pgcd(hmm, fa, budget, memory=GUIDE_BYTES))
            self._free = CircuitLM(hmm)
        self._fa, self._prompt, self._budget, self._constraint = fa, prompt, budget, constraint
        self._picture = self.limits.run(lambda: picture(constraint))
        self.posterior = None
        self._restart()
        return {
            "constraint": repr(constraint),
            "fewest": self.limits.run(lambda: fa.fewest_after([])),
            "narrowed": [str(cut) for cut in constraint.narrowed],
            "hmm": self._guide is not None,
            "coarse": self._guide is not None and self._guide.coarse,
            "automaton": self._picture and self._picture.to_dict(),
        }

    def view(self, tokens: Sequence[int], find: str = "") -> dict[str, Any]:
        """Describe what may follow these tokens; with ``find`` list tokens that contain this text instead of the most probable.

        Raises :class:`EvidenceError` if a token is not allowed after the ones before it, or no constraint is open.
        """
        if not isinstance(find, str):
            raise FormatError("playground: find is a text")
        self._go_to(tokens)
        kept = b"".join(self.vocab.token_bytes[token] or b"" for token in self._tokens)
        finished = self._finished()
        return {
            "text": kept.decode(errors="replace"),
            "tokens": [{"token": token, "text": self.spell(token)} for token in self._tokens],
            "left": int(self._mask.remaining[0]),
            "finished": finished,
            "log_success": None
            if self._guide is None or finished
            else finite(self._guide.log_lookahead()[0]),
            "states": [] if self._picture is None else self._picture.after(kept),
            **({"allowed": 0, "vocab": len(self.vocab), "candidates": []} if finished else self._next(find)),
        }

    def explain(self, text: str) -> dict[str, Any]:
        """Explain where a text stops to satisfy the open constraint, as :func:`tractile.explain` does; ``shown``: in words."""
        self._opened()
        if not isinstance(text, str):
            raise FormatError("playground: text is a text")
        self.limits.check_size(text)
        why = self.limits.run(lambda: explain(self._constraint, text))
        return why.to_dict() | {"shown": str(why)}

    def draw(self, tokens: Sequence[int]) -> dict[str, Any]:
        """Draw the next token from the guided distribution. Raises :class:`EvidenceError` if no token can follow."""
        self._go_to(tokens)
        if self._finished():
            raise EvidenceError("playground: the text is finished")
        guided = self.log_tables()["guided"].exp()
        if not bool(guided.sum() > 0):
            raise EvidenceError("playground: the model gives every token that is allowed probability zero")
        token = int(torch.multinomial(guided, 1, generator=self._generator))
        return {"token": token, "text": self.spell(token)}

    def log_tables(self) -> dict[str, Float[Tensor, " vocab"]]:
        """Return the mask (0 or −∞) and the log-distributions over the next token in nats, named as in the module's equations."""
        mask = torch.zeros(len(self.vocab), dtype=torch.float64).masked_fill(
            ~self._mask.mask()[0], -torch.inf
        )
        found = {"mask": mask, "lm": self.lm.log_probs()[0].detach().cpu().double()}
        if self._guide is not None and self._free is not None:
            found["hmm"] = self._free.log_probs()[0].double()
            found["given"] = self._guide.scores()[0].double()
            found["success"] = self._guide.lookahead()[0].double()
        guided = found["lm"] + found.get("success", mask)
        return found | {"guided": guided - guided.logsumexp(0)}

    def particles(self, particles: int = 8, seed: int = 0, proposal: str = "pgcd") -> dict[str, Any]:
        """Run SMC from the prompt; return for each step the text so far, weight and status of every particle.

        ``proposal``: "pgcd" (the lookahead with strength 1, as in :meth:`view`), "gcd", "lcd" or "lm".
        """
        self._opened()
        if proposal not in ("pgcd", "gcd", "lcd", "lm"):
            raise EvidenceError(f"playground: proposal is pgcd, gcd, lcd or lm, not {proposal!r}")
        if proposal == "pgcd" and self.hmm is None:
            raise EvidenceError("playground: pgcd needs an HMM: start with --hmm, or choose gcd")
        count = at_most(particles, MOST_PARTICLES, "playground: particles")
        at = self._tokens
        try:
            self.posterior = post = smc(
                self.lm,
                self._prompt,
                self._fa,
                LookaheadProposal(1.0) if proposal == "pgcd" else proposal,
                self.hmm if proposal == "pgcd" else None,
                count,
                self._budget,
                whole(seed, "playground: seed", 0),
                trace=True,
            )  # fmt: skip
        finally:  # the sampler has moved the language model
            self._restart()
            self._go_to(at)
        assert post.trace is not None
        texts, steps = [""] * count, []
        for step in post.trace.steps:
            texts = [texts[p] + more for p, more in zip(step.parent, step.text, strict=True)]
            rows = zip(texts, step.weight, step.status, strict=True)
            listed = [{"text": text, "weight": weight, "status": status} for text, weight, status in rows]
            steps.append({"resampled": step.resampled, "particles": listed})
        final = [{"text": p.text, "weight": p.weight} for p in post.particles]
        return {
            "failed": post.failed,
            "log_evidence": None if post.failed else post.log_evidence,
            "ess": post.ess,
            "distinct": post.distinct,
            "best": None if post.failed else post.best.text,
            "steps": steps,
            "final": final,
        }

    def spell(self, token: int) -> str:
        """Return the text of a token as the page shows it."""
        if token == self.vocab.eos_token_id:
            return END
        known = self.vocab.token_bytes[token]
        return "special" if known is None else known.decode(errors="backslashreplace")

    def _built(self, kind: str, text: str) -> tuple[Constraint, Automaton]:
        if kind not in KINDS:
            raise FormatError(f"playground: the constraint is one of {', '.join(KINDS)}, not {kind!r}")
        described: Any = text
        if kind in JSON_KINDS:
            try:
                described = json.loads(text)
            except (ValueError, RecursionError) as error:
                raise FormatError(f"the constraint is not JSON: {error}") from error
        elif kind in LINE_KINDS:
            described = [
                line.strip() if kind == "keywords" else line for line in text.splitlines() if line.strip()
            ]
        constraint = build_constraint(kind, described, {})
        return constraint, constraint.compile(self.vocab)

    def _finished(self) -> bool:
        return not int(self._mask.remaining[0]) or self.vocab.eos_token_id in self._tokens

    def _opened(self) -> None:
        if self._fa is None:
            raise EvidenceError("playground: open a constraint first")

    def _restart(self) -> None:
        """Reset the mask, the language model and the HMM to the prompt."""
        self._tokens: list[int] = []
        self.lm.start([self._prompt])
        self._mask.start(1)
        if self._guide is not None and self._free is not None:
            self._guide.start(1)
            self._free.start([[]])

    def _go_to(self, tokens: Sequence[int]) -> None:
        self._opened()
        if not isinstance(tokens, list | tuple):
            raise EvidenceError(f"playground: tokens is a list of token ids, not {tokens!r:.40}")
        asked = [whole(token, "playground: token", 0) for token in tokens]
        if asked[: len(self._tokens)] != self._tokens:
            self._restart()
        for token in asked[len(self._tokens) :]:
            if token >= len(self.vocab) or not self._mask.mask()[0, token]:
                shown = self.spell(token) if token < len(self.vocab) else str(token)
                raise EvidenceError(f"playground: the constraint does not allow the token {shown!r} here")
            for part in (self._mask, self.lm, self._guide, self._free):
                if part is not None:
                    part.advance(torch.tensor([token]))
            self._tokens.append(token)

    def _next(self, find: str) -> dict[str, Any]:
        tables = self.log_tables()
        shown = {
            token
            for name in ("guided", "lm", "hmm")
            if name in tables
            for token in tables[name].topk(min(SHOWN, len(self.vocab))).indices.tolist()
            if tables[name][token].isfinite()
        }
        if find:
            matching = [token for token in range(len(self.vocab)) if find in self.spell(token)]
            shown = set(sorted(matching, key=lambda token: -float(tables["lm"][token]))[: 3 * SHOWN])
        order = sorted(
            shown, key=lambda token: (-float(tables["guided"][token]), -float(tables["lm"][token]))
        )
        allowed = tables["mask"].isfinite()
        log_success = tables.pop("success", None)
        tables.pop("mask")
        candidates = [
            {"token": token, "text": self.spell(token), "allowed": bool(allowed[token])}
            | {name: float(table[token].exp().nan_to_num(0.0)) for name, table in tables.items()}
            | ({} if log_success is None else {"log_success": finite(log_success[token])})
            for token in order
        ]
        return {"allowed": int(allowed.sum()), "vocab": len(self.vocab), "candidates": candidates}


def finite(value: Tensor) -> float | None:
    """Convert a logarithm to JSON: None for −∞."""
    return float(value) if bool(value.isfinite()) else None


def at_most(value: Any, most: int, name: str) -> int:
    """Check that a value is a whole number from 1 to ``most``, and return it. Raises :class:`EvidenceError`."""
    number = whole(value, name)
    if number > most:
        raise EvidenceError(f"{name} is {number}; at most {most}")
    return number
