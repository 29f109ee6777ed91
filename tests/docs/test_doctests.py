"""The examples in the package's docstrings: they run, and each public name has one."""

import doctest
import functools
import importlib
import inspect
import pkgutil

import pytest
from scripts import load
from transformers import cache_utils

import tractile
import tractile_bench
from tractile.errors import TractileError

MODULES = sorted(module.name for module in pkgutil.walk_packages(tractile.__path__, "tractile."))
MODULES.remove("tractile.setup")  # the script that builds the package
MODULES += ["tractile_bench.attribute", "tractile_bench.cars", "tractile_bench.presets",
            "tractile_bench.rejection"]  # fmt: skip
MODULES += [
    f"tractile_bench.guides.{m.name}" for m in pkgutil.iter_modules([f"{tractile_bench.__path__[0]}/guides"])
]
NO_EXAMPLE = {
    "tractile.circuits.to_svg": "runs Graphviz, which may not be installed",
    "tractile.distill.VLLM": "needs vLLM",
}


class Finder(doctest.DocTestFinder):
    """Finds functions under decorators of other libraries too, such as ``torch.no_grad``."""

    def _from_module(self, module, object):
        return super()._from_module(module, inspect.unwrap(object) if callable(object) else object)


@pytest.mark.long
@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    if name == "tractile.lm.shared_prefix" and not hasattr(cache_utils, "DynamicLayer"):
        pytest.skip("this transformers has no cache layers")
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    for example in Finder().find(importlib.import_module(name), name):
        runner.run(example)
    assert runner.summarize(verbose=False).failed == 0


def test_every_package_is_found():
    assert {"tractile.layers", "tractile.circuits", "tractile.inference.smc", "tractile.constraints"} <= set(
        MODULES
    )


def public_callables():
    """(public name, value) of every class and function in the reference that is no error."""
    public = load("docs/public.py")
    for module, names in public.public_names()[0].items():
        for name in names:
            value = getattr(importlib.import_module(module), name)
            error = inspect.isclass(value) and issubclass(value, TractileError)
            if (inspect.isclass(value) or inspect.isroutine(value)) and not error:
                yield f"{module}.{name}", value


@functools.cache
def places_of_examples(module):
    """The names of a module's docstrings that hold an example."""
    found = Finder().find(importlib.import_module(module), module)
    return [test.name for test in found if test.examples]


@pytest.mark.parametrize(("name", "value"), list(public_callables()))
def test_every_public_name_has_an_example(name, value):
    if name in NO_EXAMPLE:
        pytest.skip(NO_EXAMPLE[name])
    own = f"{value.__module__}.{value.__qualname__}."
    assert any(f"{place}.".startswith(own) for place in places_of_examples(value.__module__))
