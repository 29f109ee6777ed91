"""The most probable text of a language model under a constraint, with a certificate or the gap that is left.

With p_lm the model's own probability of a sequence of tokens, its end token included, and x the best sequence found,

    log p_lm(x)  ≤  max log p_lm(y) over all valid y  ≤  max( log p_lm(x), max log p_lm(u) over the prefixes u not read ),

since a sequence is at most as probable as each of its prefixes. The prefixes are those that the constraint lets end within the
tokens that are left. The search is best-first over them (:class:`.PrefixTree`): its first sweep is beam search with the greedy
text among the beams, later ones go back to the most probable prefixes that were not read. x is certified once both sides are
equal.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import signature
from itertools import islice
from typing import Any, Unpack, final

from ..constraints import Constraint
from ..constraints.output_type import OutputType
from ..constraints.vocabulary.reading import vocabulary_of
from ..errors import EvidenceError, NoParticleSurvived
from ..inference.arguments import not_negative, whole
from ..inference.smc.arguments import ConstraintLike, a_language_model, check_normalised, compiled
from ..inference.smc.prefix_tree import Prefix, PrefixTree
from ..inference.smc.progress import progress_bar
from ..inference.smc.proposals import GCDProposal
from ..inference.smc.request import Request, requests
from ..inference.threads import one_thread
from ..lm.base import Prompt
from ..lm.masked import MaskedLM
from .canvas import Canvas
from .chat import is_chat, the_prompt
from .generate import Chat, at_temperature
from .keywords import check_keywords
from .outputs import JSONOptions, read_outputs, refuse

LISTED = 1024
"""The children of a prefix that the search can go on to; the others are bounded together."""
NOT_TAKEN = {
    "top_k": "a model cut to its most probable tokens depends on the constraint's mask",
    "top_p": "a model cut to its most probable tokens depends on the constraint's mask",
    "greedy": "the greedy text is found in any case (greedy_log_prob)",
    "hmm": "the bounds are the language model's own",
    "method": "nothing is drawn",
    "particles": "nothing is drawn; give width for the rows of a pass",
    "samples": "nothing is drawn",
    "seed": "nothing is drawn",
}
"""Arguments of :func:`.generate` that are not defined here, and why."""


@final
@dataclass(frozen=True)
class MostProbable:
    """The most probable text found, and how probable any valid text can be; log-probabilities are in nats.

    ``log_prob`` is log p_lm of ``token_ids``, the end token included, under the model itself: not renormalised over the tokens
    that the constraint allows. ``upper_bound`` is what every valid sequence of tokens has at most. ``greedy_log_prob`` is that of
    the text that takes the most probable allowed token each time; −∞ if this ends in no valid text. ``passes`` counts the calls
    of the model.

    Examples
    --------
    >>> import tractile as tt
    >>> found = tt.decoding.MostProbable("yes", "yes", (5, 2), -0.5, -0.25, -0.75, passes=3)
    >>> found.gap, found.certified, found.lost_by_greedy
    (0.25, False, 0.25)
    """

    value: Any
    text: str
    token_ids: tuple[int, ...]
    log_prob: float
    upper_bound: float
    greedy_log_prob: float
    passes: int

    @property
    def gap(self) -> float:
        """By how many nats another text can be more probable than this one at most; 0 if none can."""
        return self.upper_bound - self.log_prob

    @property
    def certified(self) -> bool:
        """Whether no valid sequence of tokens is more probable, up to the rounding of the model."""
        return self.gap == 0

    @property
    def lost_by_greedy(self) -> float:
        """By how many nats the greedy text is less probable than this one."""
        return self.log_prob - self.greedy_log_prob


def mode(
    model: Any,
    tokenizer: Any,
    prompt: Prompt | Chat,
    output: Any,
    *,
    max_new_tokens: int = 64,
    passes: int = 200,
    seconds: float | None = None,
    width: int = 64,
    temperature: float | None = None,
    canonical: bool = False,
    progress: bool = False,
    **json: Unpack[JSONOptions],
) -> MostProbable:
    """Find the most probable text that is written as ``output`` within a token budget, with a certificate or the gap.

    Compared are sequences of tokens by log p_lm(tokens, end included), the model's own: a mask does not renormalise it. A text
    that tokens write in several ways counts by the best of them, with ``canonical=True`` by the tokenizer's own. A text that a
    validator of the type refuses is no candidate. The search ends with a certificate, or at the first limit. Ctrl-C ends it too,
    once a valid text is found, with what was found.

    Parameters
    ----------
    model, tokenizer, output
        As in :func:`.generate`.
    prompt
        One text, list of token ids or chat.
    max_new_tokens
        The token budget, the end token included.
    passes
        The most calls of the model, each with at most ``width`` rows. The greedy text is always finished: at most
        ``max_new_tokens`` calls.
    seconds
        The most seconds of wall time, by default without a limit; asked between calls.
    width
        The most rows of a call: the beams of the first sweep, and the prefixes that a later one goes back to.
    temperature
        The temperature of the model, above 0: p_lm is its distribution at this temperature. Default: the model's own, 1.
    canonical
        Whether each text is written in the tokenizer's own tokens only. There are far fewer sequences then, so that more searches
        end with a certificate. It needs a constraint with a finite automaton, and a byte-pair tokenizer.
    progress
        Whether to show a progress bar with the gap.
    json
        For outputs in JSON, as in :func:`.generate`.

    Returns
    -------
    MostProbable
        The value with its log-probability, the upper bound, and what greedy decoding gives.

    Raises
    ------
    BudgetTooSmall
        No text fits the budget. Raised before the model is called.
    NoParticleSurvived
        No valid text was found: the model excludes them, or a validator refused all that were found.
    EvidenceError
        The model writes canvases or gives no probabilities, there are several prompts, or an argument is out of range or of
        :func:`.generate` alone.
    UnknownArgument, FormatError, UnsupportedConstraint, ContextTooLong, VocabularyMismatch
        As :func:`.generate`.

    Examples
    --------
    >>> from typing import Literal
    >>> import tractile as tt
    >>> model, tokenizer = tt.embedded.load_lm()
    >>> best = tt.mode(model, tokenizer, "It barks. It is a", Literal[" cat", " dog"], max_new_tokens=6)
    >>> best.certified, best.gap, best.log_prob >= best.greedy_log_prob
    (True, 0.0, True)
    """
    who = "mode"
    for name in json:
        if name in NOT_TAKEN:
            raise EvidenceError(f"{who}: {name} is not taken, as {NOT_TAKEN[name]}; leave it out")
    check_keywords(json, KNOWN, who)
    if isinstance(model, MaskedLM | Canvas):
        raise EvidenceError(
            f"{who}: a {type(model).__name__} writes no text from left to right, so its prefixes bound nothing; the most "
            "probable text of a canvas is tt.canvas(…).mpe, texts of a masked model are drawn by tt.decoding.denoise"
        )
    if (
        isinstance(prompt, list | tuple)
        and not is_chat(prompt)
        and any(isinstance(one, str | bytes | list | tuple | Mapping) for one in prompt)
    ):
        raise EvidenceError(f"{who}: prompt is a list of {len(prompt)} prompts; call {who} for each")
    passes, width = whole(passes, f"{who}: passes"), whole(width, f"{who}: width")
    seconds = math.inf if seconds is None else not_negative(seconds, f"{who}: seconds")
    lm = a_language_model(model, tokenizer, who)
    check_normalised(lm, who)
    if temperature is not None:
        temperature = not_negative(temperature, f"{who}: temperature")
        if temperature == 0:
            raise EvidenceError(
                f"{who}: temperature=0 is greedy decoding, which has no probabilities; see greedy_log_prob, or tt.generate"
            )
        lm = at_temperature(lm, temperature, who)
    (kind,) = read_outputs([output], **json)
    own = getattr(lm, "tokenizer", None) if tokenizer is None else tokenizer
    prompt = the_prompt(prompt, own, None)
    fa: ConstraintLike = kind.constraint
    if canonical:
        if not isinstance(fa, Constraint):
            raise EvidenceError(
                f"{who}: output is compiled, so canonical=True cannot change it; give compile(…, canonical=True)"
            )
        fa = fa.compile(vocabulary_of(own, lm.eos_token_id, lm.vocab_size), canonical=True)
    fa = compiled(fa, lm, tokenizer, f"{who}: output")
    (request,) = requests(who, lm, prompt, None, fa, GCDProposal(), max_new_tokens=max_new_tokens)
    with one_thread(lm), progress_bar(progress, passes, "passes, gap", "nats") as tick:
        search = Search(request, kind, width, passes, time.monotonic() + seconds, tick)
        search.run()
    return search.result()


KNOWN = [name for name in signature(mode).parameters if name != "json"] + list(JSONOptions.__annotations__)
"""The names of the arguments of :func:`mode`."""


class Search:
    """The search in a tree of prefixes: the best valid text so far, and the bound of all others, until a limit."""

    def __init__(
        self,
        request: Request,
        kind: OutputType[Any],
        width: int,
        passes: int,
        until: float,
        tick: Callable[[object], None],
    ) -> None:
        self.tree = PrefixTree(request, width, listed=LISTED)
        self.kind, self.passes, self.until, self.tick = kind, passes, until, tick
        self.decode = request.lm.decode
        self.best: Prefix = ()
        self.log_prob, self.upper = -math.inf, 0.0
        self.refused: list[str] = []  # texts that the type refuses
        self._seen = 0

    def run(self) -> None:
        """Sweep until the best text is certified, nothing can be read any more, or a limit is reached."""
        tree = self.tree
        try:
            while not tree.passes or (any(len(x.tokens) for x in tree.open) and not self._spent()):
                tree.sweep(self._floor, self._stop)
                floor = self._floor()
                self.upper = max(floor, tree.bound)
                # What cannot be better than the best text is not needed; what is not listed stays in the bound.
                tree.open = [x for x in tree.open if x.best > floor]
        except KeyboardInterrupt:  # the bound is that of the last whole sweep
            if not self.best:
                raise

    def result(self) -> MostProbable:
        """Return the best text; raise :class:`NoParticleSurvived` if there is none."""
        if not self.best:
            if self.refused:
                refuse(self.kind, self.refused, "mode")
            raise NoParticleSurvived(
                "mode: the language model gives probability zero to all texts that were found; relax the constraint, or give "
                "more passes"
            )
        text = self.decode(self.best)
        greedy = self.tree.complete.get(self.tree.greedy, -math.inf)
        if greedy > -math.inf and not self.kind.accepts(self.decode(self.tree.greedy)):
            greedy = -math.inf
        upper = max(self.upper, self.log_prob)
        return MostProbable(
            self.kind.parse(text), text, self.best, self.log_prob, upper, greedy, self.tree.passes
        )

    def _floor(self) -> float:
        """Return the log-probability of the best valid text; the texts found since the last call are read."""
        for tokens, value in islice(self.tree.complete.items(), self._seen, None):
            self._seen += 1
            if value > self.log_prob:
                text = self.decode(tokens)
                if self.kind.accepts(text):
                    self.best, self.log_prob = tokens, value
                else:
                    self.refused.append(text)
        return self.log_prob

    def _stop(self) -> bool:
        if self.tree.passes:
            self.tick(f"{self.upper - self.log_prob:.2f}")
        return self._spent()

    def _spent(self) -> bool:
        return self.tree.passes >= self.passes or time.monotonic() > self.until
