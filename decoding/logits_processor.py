"""A constraint as a logits processor for ``model.generate``: greedy, sampling and beam search, in batches.

The texts satisfy the constraint within the budget, but are drawn from the locally renormalised model and not from
p_lm(x | constraint): for that there is ``smc``. :mod:`.constrained_rows` has the equations for the logits.

``generate`` hands over nothing but the token ids of its rows. The rows of the first call are the prompts. In each later call
a row continues from the longest prefix that it shares with a row of the call before, since beams are reordered, copied and
dropped, and assisted generation appends several tokens and takes some back.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from inspect import signature
from pathlib import Path
from typing import Any, Unpack, final

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from ..circuits.automaton import Automaton
from ..circuits.chain import Chain
from ..constraints.output_type import is_list_of_tools
from ..errors import BudgetTooSmall, EvidenceError
from ..fingerprints import check_same, check_vocabularies
from ..inference.arguments import Compilable, a_chain, an_automaton, cut_to, whole
from ..inference.next_token.protocol import NextTokenQuery
from ..inference.next_token.query import GUIDE_TOLERANCE, gcd, pgcd
from ..inference.threads import one_thread
from ..token_bytes import tokenizer_fingerprint
from .constrained_rows import ConstrainedRows, GroupedRows, check_weights
from .generate_budget import tokens_of_generate
from .keywords import check_keywords
from .outputs import JSONOptions, read_outputs

WHO = "ConstraintLogitsProcessor"


@final
class ConstraintLogitsProcessor:
    """A logits processor that keeps ``model.generate`` inside a constraint; use one for each call, or ``reset`` it.

    ``fa`` is an automaton compiled from a vocabulary with an end-of-sequence token; or whatever :func:`.generate` takes as its
    output, which is compiled for ``tokenizer``, with ``json`` as the options of :func:`.output_type`. ``hmm`` is an HMM or its
    folder. ``max_new_tokens`` is the budget in tokens, end-of-sequence included; by default that of the running ``generate``. If
    ``generate`` goes on past the budget, only end-of-sequence is offered. ``prefix`` is the number of tokens at the end of a
    prompt that belong to the constrained text. ``fa``, ``max_new_tokens`` and ``prefix`` are one for all prompts, or a list of
    one for each.

    ``strength`` is the power λ of the HMM's lookahead, a temperature 1/λ; the lookahead is right to 0.1 nats (``tolerance`` of
    :func:`tractile.pgcd`). With ``mixture`` = w the log-probabilities of model and HMM are mixed in the proportion w : 1 − w.

    With ``log_kept=True`` the property :attr:`log_kept` has what the mask kept of the model at each token: two sums over the
    vocabulary in each step, some 10 ms for a row of 262,144 tokens on one CPU thread.

    The first call raises :class:`BudgetTooSmall` if no text fits, and :class:`EvidenceError` if no text of the constraint begins
    with a prefix, if a budget is larger than that of ``generate``, which would cut the text, and if there is no budget: outside
    ``generate`` ``max_new_tokens`` must be given. Logits that are NaN or +∞ are an :class:`EvidenceError` too.

    Columns past the automaton's tokens are never offered. If the model has fewer columns than the tokenizer of a compiled
    constraint has tokens (Gemma 3, added tokens), no text has the others, and :class:`VocabularyMismatch` is raised if the end
    token is one of them, or the automaton is of no known tokenizer. With ``tokenizer``, an automaton or HMM made for another
    tokenizer is refused at once, with :class:`VocabularyMismatch`; ``generate`` itself does not show its tokenizer.

    Examples
    --------
    >>> import json
    >>> import tractile as tt
    >>> model, tokenizer = tt.embedded.load_lm()
    >>> fa = tt.constraints.json_schema({"enum": ["old", "young"]}).compile(tt.Vocabulary.from_tokenizer(tokenizer))
    >>> prompt = tokenizer("I am", return_tensors="pt", return_token_type_ids=False)
    >>> processor = tt.ConstraintLogitsProcessor(fa)
    >>> ids = model.generate(**prompt, max_new_tokens=8, logits_processor=[processor], pad_token_id=tokenizer.eos_token_id)
    >>> type(json.loads(tokenizer.decode(ids[0, prompt.input_ids.shape[1] :], skip_special_tokens=True)))
    <class 'str'>
    """

    def __init__(
        self,
        fa: Any,
        hmm: Chain | str | Path | None = None,
        max_new_tokens: int | Sequence[int] | None = None,
        *,
        tokenizer: Any = None,
        strength: float = 1.0,
        mixture: float | None = None,
        prefix: int | Sequence[int] = 0,
        log_kept: bool = False,
        **json: Unpack[JSONOptions],
    ) -> None:
        check_keywords(json, KNOWN, WHO)
        hmm = None if hmm is None else a_chain(hmm, f"{WHO}: hmm")
        check_weights(strength, mixture)
        self._budgets = None if max_new_tokens is None else _numbers(max_new_tokens, "max_new_tokens", 1)
        self._prefixes = _numbers(prefix, "prefix", 0)
        several = isinstance(fa, list | tuple) and not is_list_of_tools(fa)
        given = _listed(fa, "fa") if several else [fa]
        if tokenizer is not None:
            given = [kind.constraint for kind in read_outputs(given, **json)]
        names = [f"{WHO}: fa" + f"[{i}]" * several for i in range(len(given))]
        fas = [_compiled(one, hmm, tokenizer, name) for one, name in zip(given, names, strict=True)]
        for one, name in zip(fas[1:], names[1:], strict=True):
            check_vocabularies(name, one, names[0], fas[0], "compile all of them for one tokenizer")
        self._distinct = list({id(one): one for one in fas}.values())
        numbers = {id(one): number for number, one in enumerate(self._distinct)}
        self._part_of = [numbers[id(one)] for one in fas]
        self._hmm, self._weights, self._size = hmm, (strength, mixture), self._distinct[0].vocab_size
        self._rows: GroupedRows | None = None
        self._horizon = 0
        if self._budgets is not None:
            self._make_rows(max(self._budgets))
        self._seen: Int[Tensor, "rows length"] | None = None
        self._prompt_length = 0
        self._copies = 1  # rows of each prompt
        self._kept: Float[Tensor, "rows steps"] | None = torch.zeros(0, 0) if log_kept else None

    def reset(self) -> None:
        """Forget all rows: those of the next call are new prompts."""
        self._seen = None

    def __call__(
        self, input_ids: Int[Tensor, "rows length"], scores: Float[Tensor, "rows vocab"]
    ) -> Float[Tensor, "rows vocab"]:
        """Return the scores weighed by the HMM, if there is one, and −∞ for every token that the constraint forbids."""
        _check_scores(scores)
        self._fit(scores.shape[1])
        with self._few_threads():
            rows = self._follow(input_ids.cpu())
            constrained = rows.apply(scores)
            if self._kept is not None:
                kept = rows.log_kept(scores.detach())[:, None]
                self._kept = torch.cat([self._kept.to(kept), kept], 1)
        return constrained

    @property
    def log_kept(self) -> Float[Tensor, "rows tokens"]:
        """log Σ_{x allowed} p(x | x_<t) in nats, at most 0, for each row of the last call and each token since the prompt.

        p = softmax(scores) with the scores that the processor is given: ``generate`` applies temperature, top-k and top-p
        after it. A text's tokens after its end have 0, steps at which the processor was not called NaN. Under a mask alone, the
        log-probability of a token is log p(x_t | x_<t) − ``log_kept``; the sum over tokens is the log of an unbiased weight for
        p_lm(C). Raises :class:`EvidenceError` without ``log_kept=True``.
        """
        if self._kept is None:
            raise EvidenceError(
                f"{WHO}: log_kept was not recorded; say {WHO}(…, log_kept=True) before generating"
            )
        return self._kept

    def _fit(self, outputs: int) -> None:
        """Leave out the tokens of a tokenizer that the model has no outputs for."""
        known = all(one.vocabulary_fingerprint is not None for one in self._distinct)
        size = min(outputs, self._distinct[0].vocab_size)
        if known and self._hmm is None and size != self._size:
            self._size, self._rows, self._seen = size, None, None

    def _make_rows(self, budget: int) -> GroupedRows:
        """Return the rows of all automata, made anew if the largest budget is not that of the last ones."""
        horizon, (strength, mixture) = budget + max(self._prefixes), self._weights
        if self._rows is not None and horizon == self._horizon:
            return self._rows
        fas = [one if one.vocab_size == self._size else one.cut(self._size) for one in self._distinct]

        def query(fa: Automaton) -> NextTokenQuery:
            if self._hmm is None:
                return gcd(fa, horizon)
            return pgcd(self._hmm, fa, horizon, tolerance=GUIDE_TOLERANCE)

        with self._few_threads():
            parts = [ConstrainedRows(query(fa), strength=strength, mixture=mixture) for fa in fas]
        self._rows, self._horizon = GroupedRows(parts), horizon
        return self._rows

    def _few_threads(self) -> AbstractContextManager[None]:
        return nullcontext() if self._hmm is None else one_thread(self._hmm)

    def _follow(self, ids: Int[Tensor, "rows length"]) -> GroupedRows:
        """Take back, reorder and append tokens so that the rows hold these ids; begin anew for other prompts."""
        seen, prompts, rows = self._seen, ids[:, : self._prompt_length], self._rows
        if rows is None or seen is None or not torch.equal(prompts, seen[:, : self._prompt_length]):
            rows, length = self._begin(ids), ids.shape[1]
            if self._kept is not None:
                self._kept = self._kept.new_zeros(len(ids), 0)
        else:
            length, parents = self._in_common(seen, ids)
            rows.select(parents)
            rows.rollback(seen.shape[1] - length)
            if self._kept is not None:
                steps = ids.shape[1] - self._prompt_length
                kept = self._kept[parents.to(self._kept.device), : length - self._prompt_length + 1][
                    :, :steps
                ]
                self._kept = functional.pad(kept, (0, steps - kept.shape[1]), value=torch.nan)
        for column in ids[:, length:].T:
            rows.append(column)
        self._seen = ids
        return rows

    def _in_common(
        self, seen: Int[Tensor, "rows before"], ids: Int[Tensor, "rows length"]
    ) -> tuple[int, Tensor]:
        """Return the greatest length at which each row of ``ids`` equals a row of its prompt in ``seen``, and those rows."""
        most = min(seen.shape[1], ids.shape[1])
        least, found = self._prompt_length, torch.arange(len(ids))
        length = most
        while least < most:
            parents = self._parents(seen[:, :length], ids[:, :length])
            if parents is None:
                most = length - 1
            else:
                least, found = length, parents
            length = (least + most + 1) // 2
        return least, found

    def _parents(self, seen: Int[Tensor, "rows length"], ids: Int[Tensor, "rows length"]) -> Tensor | None:
        """Return for each row of ``ids`` the index of an equal row of its prompt in ``seen``; None if some row has none."""
        if torch.equal(seen, ids):
            return torch.arange(len(seen))
        index = {(i // self._copies, *row): i for i, row in enumerate(seen.tolist())}
        found = [index.get((i // self._copies, *row), -1) for i, row in enumerate(ids.tolist())]
        return None if -1 in found else torch.tensor(found)

    def _begin(self, prompts: Int[Tensor, "rows length"]) -> GroupedRows:
        self._prompt_length = prompts.shape[1]
        given = self._the_budgets(tokens_of_generate(self._prompt_length))
        lists = given, self._prefixes, self._part_of
        self._copies = len(prompts) // max(map(len, lists)) or 1
        budgets, lengths, part_of = (_each(of, prompts) for of in lists)
        longest = int(lengths.max())
        if longest > self._prompt_length:
            raise EvidenceError(
                f"{WHO}: prefix is {longest} tokens, but the prompts have {self._prompt_length}"
            )
        ends = prompts[:, self._prompt_length - longest :]
        outside = torch.arange(longest) < longest - lengths[:, None]
        rows = self._make_rows(max(given))
        try:
            rows.begin(ends.masked_fill(outside, -1), budgets, part_of)
        except BudgetTooSmall as error:
            several = error.prompt is not None and max(map(len, lists)) > 1
            raise error.of_prompt((error.prompt or 0) // self._copies if several else None) from None
        return rows

    def _the_budgets(self, tokens: int | None) -> list[int]:
        """Return the budgets given, or that of ``generate``, which ends after ``tokens`` tokens (None: not known)."""
        if self._budgets is None:
            if tokens is None:
                raise EvidenceError(
                    f"{WHO}: no model.generate runs whose budget could be used; give max_new_tokens=…"
                )
            return [tokens]
        if tokens is not None and max(self._budgets) > tokens:
            raise EvidenceError(
                f"{WHO}: max_new_tokens is {max(self._budgets)}, but generate ends after {tokens} tokens and would cut the "
                f"text; give generate max_new_tokens={max(self._budgets)}, or leave it out here"
            )
        return self._budgets


KNOWN = [*signature(ConstraintLogitsProcessor).parameters, *JSONOptions.__annotations__]
"""The names of the arguments of :class:`ConstraintLogitsProcessor`."""


def check_tokenizer(tokenizer: Any, fa: Automaton, hmm: Chain | None) -> None:
    """Raise :class:`VocabularyMismatch` if an automaton or an HMM is known to be made for another tokenizer."""
    own = tokenizer_fingerprint(tokenizer, fa.eos_token_id, fa.vocab_size)
    compile_ = "compile the constraint with Vocabulary.from_tokenizer(tokenizer)"
    check_same("the automaton", fa.vocabulary_fingerprint, "the tokenizer", own, compile_)
    if hmm is not None:
        check_same(
            "the HMM", hmm.vocabulary_fingerprint, "the tokenizer", own, "give an HMM distilled for it"
        )


def _check_scores(scores: Float[Tensor, "rows vocab"]) -> None:
    """Raise :class:`EvidenceError` that names the first row with a logit that is NaN or +∞."""
    wrong = ~(scores.amax(1) < torch.inf)  # the largest is NaN if any is
    if bool(wrong.any()):
        raise EvidenceError(
            f"{WHO}: the model gives NaN or +∞ as a logit in row {int(wrong.nonzero()[0, 0])}; does its precision overflow?"
        )


def _compiled(fa: Any, hmm: Chain | None, tokenizer: Any, name: str) -> Automaton:
    """Return the automaton of a constraint, checked against tokenizer and HMM."""
    if isinstance(fa, Compilable) and tokenizer is not None:
        fa = fa.compiled_for(tokenizer)
    found = an_automaton(fa, name)
    found = found if hmm is None else cut_to(found, hmm)
    if found.eos_token_id is None:
        raise EvidenceError(f"{name}: the automaton has no end-of-sequence token to stop generate with")
    if tokenizer is not None:
        check_tokenizer(tokenizer, found, hmm)
    return found


def _numbers(given: int | Sequence[int], name: str, least: int) -> list[int]:
    return [whole(number, f"{WHO}: {name}", least) for number in _listed(given, name)]


def _listed(given: Any, name: str) -> list[Any]:
    """Return the entries of a list, or what was given as the only entry; raise :class:`EvidenceError` for an empty list."""
    entries = list(given) if isinstance(given, Sequence) and not isinstance(given, str | bytes) else [given]
    if not entries:
        raise EvidenceError(f"{WHO}: {name} is empty; give one, or one for each prompt")
    return entries


def _each(given: list[int], prompts: Int[Tensor, "rows length"]) -> Int[Tensor, " rows"]:
    """Repeat the number of each prompt for the copies of the prompt that ``generate`` made (beams, returned sequences)."""
    copies, rest = divmod(len(prompts), len(given))
    whose = torch.arange(len(given)).repeat_interleave(copies)
    if rest or (len(given) > 1 and not torch.equal(prompts, prompts[whose * copies])):
        raise EvidenceError(
            f"{WHO}: a list of {len(given)} was given, one for each prompt, but the {len(prompts)} rows of "
            f"this call are not {len(given)} prompts with the same number of copies each"
        )
    return torch.tensor(given)[whose]
