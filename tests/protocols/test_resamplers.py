"""Every resampling scheme is unbiased: those of the library, and one that an outsider writes."""

import pytest
import torch

from tractile.inference.smc.resampling import SCHEMES
from tractile.testing import check_resampler


def in_turn(weights, generator, count):
    """Each ancestor by a draw of its own."""
    return torch.multinomial(weights, count, replacement=True, generator=generator).sort().values


@pytest.mark.parametrize("scheme", [*SCHEMES.values(), in_turn], ids=lambda scheme: scheme.__name__)
def test_a_scheme_is_unbiased(scheme):
    check_resampler(scheme)
