"""Damaged files: saved circuits and HMMs, checkpoints of the Ctrl-G family, what is kept on disk for constraints.

Bytes are cut, flipped, inserted and swapped; members of configurations and tensors are replaced. What is read must be what was
written, or a model whose answers are numbers, or a typed error.
"""

import hashlib
import json
import math
import shutil
import tempfile
from contextlib import contextmanager
from copy import deepcopy
from functools import cache
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

import tractile as tt
from tractile import constraints
from tractile.constraints import Vocabulary


@st.composite
def damages(draw):
    """A function that damages bytes."""
    kind = draw(st.sampled_from(["cut", "flip", "insert", "erase", "swap", "empty", "double"]))
    at, other = draw(st.floats(0, 1)), draw(st.floats(0, 1))
    bit, some = draw(st.integers(0, 7)), draw(st.binary(min_size=1, max_size=8))

    def damage(data):
        i, j = (min(int(share * len(data)), len(data) - 1) for share in (at, other))
        i, j = min(i, j), max(i, j)
        if kind == "cut":
            return data[:i]
        if kind == "flip":
            return data[:i] + bytes([data[i] ^ (1 << bit)]) + data[i + 1 :]
        if kind == "insert":
            return data[:i] + some + data[i:]
        if kind == "erase":
            return data[:i] + data[j:]
        if kind == "swap":
            return data[:i] + data[j:] + data[i:j]
        return b"" if kind == "empty" else data + data

    return damage


VALUES = st.sampled_from([
    None, True, 0, -1, 1, 2, 3, 10**30, 1e308, float("nan"), "", "x", "dense", "monarch", "Sum", "0", [], [0], [1, 0], [[]],
    {}, {"a": 1}, {"tensor": "0"}, {"tensor": []}, {"type": "Dense", "args": [{"tensor": "0"}]}, {"type": [], "args": 1},
    {"type": "Identity", "args": [10**9]},
])  # fmt: skip


@st.composite
def json_damages(draw):
    """A function that replaces, removes or adds one member or item of a JSON value, at any depth."""
    path, value = draw(st.lists(st.floats(0, 0.999), min_size=1, max_size=6)), draw(VALUES)
    kind = draw(st.sampled_from(["replace", "remove", "add"]))

    def damage(whole):
        at, last = whole, None
        for share in path:
            keys = list(at) if isinstance(at, dict) else list(range(len(at))) if isinstance(at, list) else []
            if not keys:
                break
            last = (at, keys[int(share * len(keys))])
            at = at[last[1]]
        if last is None:
            return deepcopy(value)
        holder, key = last
        if kind == "remove":
            del holder[key]
        elif kind == "add" and isinstance(holder, list):
            holder.insert(key, deepcopy(value))
        else:
            holder[key] = deepcopy(value)
        return whole

    return damage


DTYPES = [
    torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int64, torch.bool, torch.uint8, torch.complex64,
]  # fmt: skip


@st.composite
def tensor_damages(draw):
    """A function that changes a tensor: its shape, its type, or one of its entries."""
    kind = draw(st.sampled_from(["dtype", "shape", "entry", "all", "scalar", "empty"]))
    dtype, share = draw(st.sampled_from(DTYPES)), draw(st.floats(0, 0.999))
    value = draw(st.sampled_from([math.nan, math.inf, -math.inf, -1.0, 0.0, 2.0, 1e-310, 1e30]))

    def damage(tensor):
        if kind == "dtype":
            return tensor.to(dtype)
        if kind == "shape":
            return tensor[..., :-1] if share < 0.3 else tensor[None] if share < 0.6 else tensor.flatten()
        if kind == "scalar":
            return torch.tensor(value).to(tensor.dtype)
        if kind == "empty":
            return tensor[:0]
        tensor = tensor.clone()
        if tensor.dtype == torch.bool or (not tensor.is_floating_point() and not abs(value) < 3):
            return tensor
        tensor.view(-1)[int(share * tensor.numel()) if kind == "entry" else slice(None)] = value
        return tensor

    return damage


def models():
    circuit = tt.Circuit()
    a, b = (circuit.input(tt.layers.Categorical(torch.full((2, 3), 1 / 3)), v) for v in (0, 1))
    circuit.root = circuit.sum(
        tt.layers.Sum(tt.layers.Dense(torch.tensor([[0.25, 0.75]]))),
        circuit.product(tt.layers.Hadamard(), a, b),
    )
    automaton = tt.Automaton.from_edges(
        [(0, [1, 3], 1), (1, 0, 0)], start=0, accept=[0, 1], vocab_size=5, eos_token_id=4
    )
    dense, monarch = (tt.HMM.random(4, 5, transition=kind, seed=1) for kind in ("dense", "monarch"))
    return {
        "circuit": circuit, "automaton": automaton, "dense": dense, "monarch": monarch, "product": dense * automaton,
    }  # fmt: skip


@cache
def saved(kind):
    """A folder with a model."""
    folder = Path(tempfile.mkdtemp())
    if kind == "ctrlg":
        hmm = models()["dense"]
        tensors = {
            "beta": hmm.emission_probs.log(), "gamma": hmm.initial_probs.log(), "alpha_exp": hmm.transition.parameters()[0]
        }  # fmt: skip
        save_file(
            {name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "model.safetensors"
        )
        (folder / "config.json").write_text(
            json.dumps({"hidden_states": 4, "vocab_size": 5, "eos_token_id": 4})
        )
    else:
        tt.save(models()[kind], folder)
    return folder


@contextmanager
def copied(kind):
    with tempfile.TemporaryDirectory() as name:
        shutil.copytree(saved(kind), name, dirs_exist_ok=True)
        yield Path(name)


def read(kind, folder):
    """The log-probabilities that what is in the folder gives, or the typed error."""
    try:
        model = tt.HMM.from_pretrained(folder) if kind == "ctrlg" else tt.load(folder)
        found = tt.partition(model) if isinstance(model, tt.Circuit) else tt.partition(model, n=3)
        if isinstance(model, tt.HMM):
            tt.sample(model, 2, n=3)
    except tt.TractileError as error:
        return error
    assert not bool(found.isnan().any()), found
    return found


KINDS = ["circuit", "automaton", "dense", "monarch", "product", "ctrlg"]


@given(st.sampled_from(KINDS), st.sampled_from(["model.safetensors", "config.json"]), damages())
def test_damaged_bytes_of_models(kind, name, damage):
    with copied(kind) as folder:
        path = folder / name
        path.write_bytes(damage(path.read_bytes()))
        read(kind, folder)


@given(st.sampled_from(KINDS), st.lists(json_damages(), min_size=1, max_size=2))
def test_damaged_configurations_of_models(kind, some):
    with copied(kind) as folder:
        config = json.loads((folder / "config.json").read_text())
        for damage in some:
            config = damage(config)
        (folder / "config.json").write_text(json.dumps(config))
        read(kind, folder)


@given(st.sampled_from(KINDS), st.floats(0, 0.999), tensor_damages())
def test_damaged_tensors_of_models(kind, share, damage):
    with copied(kind) as folder:
        tensors = load_file(folder / "model.safetensors")
        name = sorted(tensors)[int(share * len(tensors))]
        tensors[name] = damage(tensors[name]).contiguous()
        save_file(tensors, folder / "model.safetensors")
        config = json.loads((folder / "config.json").read_text())
        if "tensors_sha256" in config:
            config["tensors_sha256"] = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
        (folder / "config.json").write_text(json.dumps(config))
        read(kind, folder)


VOCAB = Vocabulary([*(bytes([b]) for b in range(256)), b"ab", b'"a', None], eos_token_id=258)
BUILDERS = {
    "written": lambda: constraints.regex("[ab]{1,3}"),
    "nondeterministic": lambda: constraints.regex("(a|b)*a(a|b){2}"),
    "schema": lambda: constraints.json_schema({"enum": ["a", 1]}, whitespace="none"),
}


@cache
def expected(kind):
    return tt.gcd(BUILDERS[kind]().compile(VOCAB), 8).start().mask()


@given(st.sampled_from(sorted(BUILDERS)), st.lists(damages(), min_size=1, max_size=3), st.booleans())
def test_damaged_disk_cache(kind, some, swapped):
    """A damaged file, or one under another's name, is as good as none."""
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRACTILE_CACHE", name)
        assert BUILDERS[kind]().compile(VOCAB, cache=True).finite.num_states
        paths = sorted(Path(name).glob("*.safetensors"))
        if swapped:
            assert constraints.regex("b{4}").compile(VOCAB, cache=True).finite.num_states
            (other,) = set(Path(name).glob("automaton-*")) - set(paths)
            for path in paths:
                shutil.copy(other, path)
        else:
            for path, damage in zip(paths, some, strict=False):
                path.write_bytes(damage(path.read_bytes()))
        found = BUILDERS[kind]().compile(VOCAB, cache=True).finite
        assert torch.equal(tt.gcd(found, 8).start().mask(), expected(kind))
