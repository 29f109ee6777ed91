"""What training under a constraint C needs: the mass that C has under a model, differentiable.

    constraint_loss   −log Σ_{x ∈ C} Π_t p_t(x_t)                    p_t = softmax(logits_t)    (Xu et al. 2018, Def. 1)
    log_kept          log Σ_{v allowed after x_<t} p(v | x_<t)       for each token of given texts

The first is the semantic loss of J. Xu, Z. Zhang, T. Friedman, Y. Liang and G. Van den Broeck, *A semantic loss function for deep
learning with symbolic knowledge* (ICML 2018), for categorical variables: a chain of independent positions times the automaton of
C. The second turns a model's log-probabilities into those of the masked policy from which constrained decoding samples:
log π_C(x_t | x_<t) = log p(x_t | x_<t) − log_kept_t. Axes: (batch, position, token); nats.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..argument_checks import short, whole, whole_numbers
from ..circuits.automaton import Automaton
from ..constraints.constraint import Constraint
from ..errors import EvidenceError, ShapeError
from ..inference.arguments import an_automaton
from ..inference.next_token.query import gcd
from ..inference.queries.marginal import log_marginal
from ..layers.functorch_utils import finite
from .canvas import Weighed, check_range, parts_of
from .constrained_rows import ConstrainedRows


def constraint_loss(
    logits: Float[Tensor, "*batch positions vocab"],
    constraint: Automaton | Constraint,
    mask: Bool[Tensor, "*batch positions"] | None = None,
    *,
    vocab: Any = None,
    pad_token_id: int | None = None,
) -> Float[Tensor, " batch"]:
    """Return −log of the mass that independent positions have on the texts of a constraint: the semantic loss.

    It is exact, in float64, and differentiable in the logits: the gradient at a logit is p_t(v) − p(x_t = v | C). A logit of −∞
    has probability and gradient zero. Time is linear in positions × edges of the automaton.

    Parameters
    ----------
    logits
        The logits of each position, such as those of a tagger or of a masked model: any floating-point type. One 10,000 nats
        or more below the best of its position counts as −∞, since models write masks so.
    constraint
        An automaton over the tokens (``tt.Automaton.from_edges``, or a compiled constraint), or a constraint that is compiled for
        ``vocab`` in each call. A text takes all positions of its row; if the automaton has an end-of-sequence token, the text may
        end earlier and is followed by end tokens, or by one and ``pad_token_id``, as in :func:`tractile.canvas`.
    mask
        True at the positions that the text of a row has, in order; the others are not read. Default: all.
    vocab
        The :class:`~tractile.Vocabulary`, or a tokenizer, for a constraint that is not compiled.

    Returns
    -------
    Tensor
        The loss of each row in nats, 0 where all texts of positive probability satisfy the constraint.

    Raises
    ------
    EvidenceError
        A row has no text of positive probability in the constraint: the loss is infinite and has no gradient.
    ShapeError
        ``logits`` or ``mask`` do not fit, hold NaN or +∞, or ``constraint`` is neither an automaton nor a Constraint. For an HMM
        under a constraint the loss is ``-tt.partition(hmm * fa, n=n)``; for known tokens, or constraints on ranges of positions,
        ``-tt.canvas(logits.log_softmax(-1), …).log_partition``.
    BudgetTooSmall, TooManyStates, VocabularyMismatch
        As :func:`tractile.canvas`; a lazy constraint is written out if at most 10,000 of its states can be met.

    References
    ----------
    J. Xu, Z. Zhang, T. Friedman, Y. Liang and G. Van den Broeck, *A semantic loss function for deep learning with symbolic
    knowledge*, ICML 2018, Definition 1.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> one = tt.Automaton.from_edges([(0, 0, 0), (0, 1, 1), (1, 0, 1)], start=0, accept=[1], vocab_size=2)
    >>> logits = torch.zeros(1, 3, 2, requires_grad=True)
    >>> loss = tt.constraint_loss(logits, one).mean()  # exactly one 1 in three throws of a coin: ⅜
    >>> round(loss.exp().item(), 4)
    2.6667
    >>> loss.backward()
    >>> logits.grad[0, 0]  # ½ − ⅔, ½ − ⅓
    tensor([-0.1667,  0.1667])
    """
    who = "constraint_loss"
    if not isinstance(logits, Tensor) or logits.ndim not in (2, 3) or not logits.is_floating_point():
        raise ShapeError(f"{who}: logits are floats, ([batch,] positions, vocabulary)")
    logits = logits[None] if logits.ndim == 2 else logits
    if not isinstance(constraint, Automaton | Constraint):
        raise ShapeError(
            f"{who}: constraint is an automaton over the tokens or a Constraint, not {short(constraint)}; for an HMM under a "
            "constraint take -tt.partition(hmm * fa, n=…), for ranges of positions -tt.canvas(…).log_partition"
        )
    batch, n, size = logits.shape
    logits, inside = _in_front(logits, mask)
    if not bool((logits < torch.inf).all()):
        raise ShapeError(f"{who}: logits hold nan or inf; they are real numbers, −inf where impossible")
    log_probs = logits.double()
    log_probs = log_probs - finite(log_probs.logsumexp(2, keepdim=True))
    ((over, letters),) = parts_of(constraint, n, size, vocab, pad_token_id, logits.device)
    weights, scale, wide = letters.weights(log_probs.flatten(0, 1))
    weighed = Weighed(
        weights.view(batch, n, weights.shape[-1]),
        scale.view(batch, n).masked_fill(~inside, 0),
        (wide.view(batch, n) & inside).any(1),
    )
    found = log_marginal(letters.automaton, weighed.weights, lengths=inside.sum(1))
    most = weighed.weights.detach().sum(2).log().masked_fill(~inside, 0).sum(1)
    check_range(weighed, over, found.detach(), most)
    for row in found.isneginf().nonzero()[:1, 0].tolist():
        raise EvidenceError(
            f"{who}: row {row} has no text of its {int(inside[row].sum())} positions that satisfies the constraint and has "
            "positive probability; leave the row out, or mend its mask or its logits of −inf"
        )
    return -(found + weighed.scale.sum(1))


def _in_front(
    logits: Float[Tensor, "batch positions vocab"], mask: Bool[Tensor, "*batch positions"] | None
) -> tuple[Float[Tensor, "batch positions vocab"], Bool[Tensor, "batch positions"]]:
    """Return logits with the positions of the mask first, the others zero, and which are of the mask."""
    every = torch.ones(logits.shape[:2], dtype=torch.bool, device=logits.device)
    if mask is None:
        return logits, every
    mask = torch.as_tensor(mask, device=logits.device)
    if mask.dtype != torch.bool or mask.shape not in (every.shape, every.shape[1:]):
        raise ShapeError(
            f"constraint_loss: mask holds True or False for each of {tuple(every.shape)} positions, not a tensor of shape "
            f"{tuple(mask.shape)} and {mask.dtype}"
        )
    inside, order = mask.expand_as(every).int().sort(stable=True, dim=1, descending=True)
    chosen = logits.gather(1, order[:, :, None].expand_as(logits))
    return torch.where(inside[:, :, None] > 0, chosen, 0.0), inside > 0


def log_kept(
    logits: Float[Tensor, "batch positions vocab"],
    tokens: Int[Tensor, "batch positions"],
    fa: Automaton,
    max_new_tokens: int,
) -> Float[Tensor, "batch positions"]:
    """Return what the mask of constrained decoding keeps of a model at each token of texts, in nats, differentiable.

    That is log Σ_v p(v | x_<t) over the tokens v that are allowed after x_<t; at most 0, and 0 after the end of a text. It is
    what training on texts of :class:`.ConstraintLogitsProcessor` or :func:`tractile.generate` needs: the policy that they were
    drawn from has log-probability log p(x_t | x_<t) − log_kept_t.

    Parameters
    ----------
    logits
        The model's logits of each token of the texts, divided by the temperature if there was one.
    tokens
        The texts without their prompts. What follows an end-of-sequence token is not read.
    fa
        The automaton of the constraint, compiled from a vocabulary with an end-of-sequence token.
    max_new_tokens
        The budget with which the texts were generated: the mask depends on it.

    Raises
    ------
    EvidenceError
        The constraint forbids a token of a text within the budget, or the automaton has no end-of-sequence token.
    BudgetTooSmall
        No text fits the budget.
    ShapeError, VocabularyMismatch
        Shapes do not fit, or the model has fewer tokens than the automaton.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> fa = tt.constraints.regex("ab?").compile(tt.Vocabulary([b"a", b"b", None], eos_token_id=2))
    >>> logits = torch.tensor([[0.5, 0.3, 0.2]]).log().repeat(2, 1)[None]
    >>> tt.decoding.log_kept(logits, torch.tensor([[0, 2]]), fa, max_new_tokens=3).exp()  # a, then b or the end
    tensor([[0.5000, 0.5000]])
    """
    who = "log_kept"
    fa = an_automaton(fa, f"{who}: fa")
    budget = whole(max_new_tokens, f"{who}: max_new_tokens", 1)
    tokens = whole_numbers(tokens, f"{who}: tokens", ShapeError).cpu()
    if not isinstance(logits, Tensor) or logits.ndim != 3 or logits.shape[:2] != tokens.shape:
        raise ShapeError(f"{who}: logits are (batch, positions, vocabulary) and tokens (batch, positions)")
    if fa.vocabulary_fingerprint is not None and logits.shape[2] < fa.vocab_size:
        fa = fa.cut(logits.shape[2])  # no text has the others
    rows = ConstrainedRows(gcd(fa, budget))
    rows.begin(tokens[:, :0], torch.full((len(tokens),), budget))
    found = []
    for t, column in enumerate(tokens.T):
        for row in (~rows.allows(column) & ~rows.ended).nonzero()[:1, 0].tolist():
            raise EvidenceError(
                f"{who}: token {int(column[row])} of row {row}, position {t}, is forbidden there within {budget} tokens; give "
                "texts that were generated under this constraint and budget, without the prompt"
            )
        found.append(rows.log_kept(logits[:, t]))
        rows.append(column.masked_fill(rows.ended, -1))
    return torch.stack(found, 1) if found else logits.new_zeros(tokens.shape)
