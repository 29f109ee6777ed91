"""The check of weights that layers are made of."""

from __future__ import annotations

import math

from torch import Tensor

from ..errors import ShapeError
from .functorch_utils import is_abstract


def check_weights(weight: Tensor, name: str) -> None:
    """Raise :class:`ShapeError` if a weight is negative, infinite or NaN; ``name`` says whose weights they are."""
    values = weight.detach()
    if is_abstract(values) or not values.numel():
        return
    least, most = map(float, values.aminmax())
    if not 0 <= least <= most < math.inf:
        wrong = "NaN" if math.isnan(least) else least if least < 0 else most
        raise ShapeError(
            f"{name}: weights must be finite and not negative, not {wrong} (are they logarithms, or parameters before a softmax?)"
        )
