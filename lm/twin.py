"""A model beside a model: the same parameters and hooks, another attention. So the model given is never changed.

Transformers chooses a model's attention by its configuration, which all callers of the model share. A twin has modules and
configurations of its own, and nothing else: parameters, buffers and hooks are those of the model.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from torch import nn


def twin_of(model: nn.Module, attention: str) -> Any:
    """Return a twin of a model of transformers whose attention is the registered function of this name.

    Modules that are replaced in the model later, and attributes that refer to modules past ``_modules``, are the model's.
    """
    found: dict[int, Any] = {id(m.config): m.config for m in model.modules() if hasattr(m, "config")}
    # Copied together: a configuration may be part of another.
    configs = dict(zip(found, deepcopy(list(found.values())), strict=True))
    for config in configs.values():
        config._attn_implementation = attention
    made: dict[int, nn.Module] = {}

    def copied(module: nn.Module) -> nn.Module:
        if id(module) not in made:
            new = made[id(module)] = object.__new__(type(module))
            new.__dict__ = {name: configs.get(id(value), value) for name, value in vars(module).items()}
            new.__dict__["_modules"] = {
                name: child if child is None else copied(child) for name, child in module._modules.items()
            }
        return made[id(module)]

    return copied(model)
