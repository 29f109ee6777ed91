"""The examples in the package's docstrings."""

import doctest
import importlib
import pkgutil

import pytest
from transformers import cache_utils

import tractile

MODULES = sorted(module.name for module in pkgutil.walk_packages(tractile.__path__, "tractile."))


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    if name == "tractile.lm.shared_prefix" and not hasattr(cache_utils, "DynamicLayer"):
        pytest.skip("this transformers has no cache layers")
    module = importlib.import_module(name)
    result = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0


def test_every_package_is_found():
    assert {"tractile.layers", "tractile.circuits", "tractile.inference.smc", "tractile.constraints"} <= set(
        MODULES
    )
