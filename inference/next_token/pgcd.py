"""P-GCD: the product query on a chain × a guide, with masks of the constraint (Dang et al. 2026, Algorithm 1).

    mask(v)       1[x_<t v can be completed to a text of the constraint within the budget], exact
    lookahead(v)  log chain × G (x_<t v …) − log chain (x_<t v), −∞ where mask(v) is 0

The guide G accepts at least what the constraint C does: it is C's own automaton, or a smaller one that forgets how long a string
is. If G accepts exactly C, the lookahead of an HMM is log p_hmm(C | x_<t, v). A sampler's weights correct for the rest.
"""

from __future__ import annotations

from math import log
from typing import Any, Self, final

import torch
from jaxtyping import Bool, Float, Int, Int32
from numpy import ndarray
from torch import Tensor

from ...circuits.automaton import Automaton
from ...circuits.chain import Chain
from ...fingerprints import check_vocabularies
from ..semirings.floored import FLOOR, Floored
from .ahead import FORCED_LIMIT
from .gcd import GCDQuery
from .product_query import ProductQuery
from .product_step import ProductMessages, Scores
from .protocol import Budgets, Drafts


@final
class PGCDQuery(ProductQuery):
    """The product query of a chain and a guide under the masks of a constraint: :func:`tractile.pgcd`.

    ``masks``: the masks of the constraint, :func:`tractile.gcd`. ``guide``: an explicit automaton that accepts at least the same
    texts. ``options``: those of :class:`~.product_query.ProductQuery`.
    """

    def __init__(self, chain: Chain, masks: GCDQuery, guide: Automaton, horizon: int, **options: Any) -> None:
        check_vocabularies(
            f"the {type(chain).__name__}", chain, "the automaton", masks.automaton,
            "compile the constraint with the tokenizer that the HMM was distilled for, or distil an HMM for this one",
        )  # fmt: skip
        super().__init__(chain, guide, horizon, **options)
        self.automaton, self._masks = masks.automaton, masks
        self.coarse = guide is not masks.automaton
        """Whether the guide is another automaton than the constraint's own."""

    # ------------------------------------------------------------ masks

    def _mask_query(self) -> GCDQuery:
        """Return the mask query, brought up to date with the tokens read. Raises :class:`EvidenceError` before :meth:`start`."""
        return self._history.query("masks", lambda: self._masks)

    def start(self, batch: int = 1, budgets: Budgets = None) -> Self:
        self.take_up(self._masks.fork().start(batch, budgets).remaining)
        return self

    def feasible_lengths(self) -> Bool[Tensor, " lengths"]:
        return self._masks.feasible_lengths()

    def mask(self) -> Bool[Tensor, "batch vocab"]:
        return self._mask_query().mask()

    def words(self, out: Int32[ndarray, "batch words"] | None = None) -> Int32[ndarray, "batch words"]:
        return self._mask_query().words(out)

    def bitmask(self, out: Int[Tensor, "batch words"] | None = None) -> Int[Tensor, "batch words"]:
        return self._mask_query().bitmask(out)

    def validate(self, tokens: Drafts) -> Int[Tensor, " batch"]:
        return self._mask_query().validate(tokens)

    def forced(self, limit: int = FORCED_LIMIT) -> list[list[int]]:
        return self._mask_query().forced(limit)

    # ------------------------------------------------------------ scores under the masks

    def ended(self) -> Float[Tensor, " batch"]:
        found = super().ended()
        if not self.coarse:
            return found
        return found.where(self._mask_query().ended().to(self.device) > -torch.inf, -torch.inf)

    def _masked(self, found: Scores) -> Scores:
        if not self.coarse and not isinstance(self.semiring, Floored):
            return found
        mask = self.mask().to(self.device)
        product, prior = found.product.masked_fill(~mask, -torch.inf), found.prior
        if isinstance(self.semiring, Floored) and bool((missing := mask & product.isneginf()).any()):
            possible = self._history.query("possible", lambda: ProductMessages(self._in_boolean()))
            lost, least = missing & (possible.scores().product > -torch.inf), log(FLOOR)
            prior = torch.where(lost, prior.clamp(min=least), prior)
            shift = (found.prior_scale - found.product_scale).to(prior.dtype)[:, None]
            product = torch.where(lost, prior + shift + least, product)
        return found._replace(product=product, prior=prior)
