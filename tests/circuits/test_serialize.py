"""Circuits, chains and automata on disk: what is read is what was written; anything odd is refused."""

import hashlib
import json

import numpy as np
import pytest
import torch
import zoo
from safetensors.torch import load_file, save_file

import tractile as tt
from tractile.circuits.io import file_format as serialize
from tractile.errors import FormatError
from tractile.layers import (
    Bernoulli,
    Categorical,
    Dense,
    Gaussian,
    Hadamard,
    Identity,
    Indicator,
    Monarch,
    Sum,
)


def test_every_layer_survives(tmp_path):
    c = tt.Circuit()
    tables = [
        Categorical(torch.rand(3, 3)),
        Bernoulli(torch.rand(3)),
        Indicator(3),
        Gaussian(torch.randn(3), torch.rand(3) + 0.1, torch.randn(3), min_variance=1e-3),
        Gaussian(torch.randn(3), torch.rand(3) + 0.1),
    ]
    nodes = [c.input(layer, v) for v, layer in enumerate(tables)]
    operators = [Identity(3), Dense(torch.rand(3, 3)), Monarch([torch.rand(1, 3, 3), torch.rand(1, 3, 1)]).T]
    nodes[:3] = [c.sum(Sum(op), node) for op, node in zip(operators, nodes, strict=False)]
    c.sum(Sum(Dense(torch.rand(1, 3))), c.product(Hadamard(), *nodes))
    tt.save(c, tmp_path / "new" / "folder")
    again = tt.load(tmp_path / "new" / "folder")
    x = {0: 2, 1: 1, 2: 0, 3: 0.3, 4: -1.0}
    assert torch.equal(tt.log_marginal(again, x), tt.log_marginal(c, x))
    assert torch.equal(tt.partition(again), tt.partition(c))
    assert again.layer(3).min_variance == 1e-3


def test_tied_tensors_and_shared_layers_stay_so(tmp_path):
    hmm = tt.HMM.random(3, 4, seed=1)
    circuit = hmm.unroll(5)
    tt.save(circuit, tmp_path)
    again = tt.load(tmp_path)
    assert len(again.parameters()) == len(circuit.parameters())
    assert len({id(again.layer(n)) for n in again.nodes()}) == len(
        {id(circuit.layer(n)) for n in circuit.nodes()}
    )
    assert (tmp_path / "model.safetensors").stat().st_size < 2000  # one transition, one emission
    tokens = torch.randint(4, (2, 5))
    assert torch.equal(tt.log_marginal(again, tokens), tt.log_marginal(circuit, tokens))


def test_chains_and_automata_survive(tmp_path):
    fsa = tt.Automaton.from_edges(
        [(0, [1, 3], 1), (1, 0, 0)], start=0, accept=[0, 1], vocab_size=5, eos_token_id=4
    )
    hmm = tt.HMM.random(4, 5, transition="monarch", dtype=torch.float64)
    for k, model in enumerate((fsa, hmm, hmm * fsa)):
        tt.save(model, tmp_path / str(k))
        again = tt.load(tmp_path / str(k))
        assert type(again) is type(model)
        torch.testing.assert_close(tt.partition(again, n=4), tt.partition(model, n=4), rtol=0, atol=1e-14)
    again = tt.load(tmp_path / "0")
    assert again.eos_token_id == 4
    assert again.edges() == fsa.edges()
    assert tt.load(tmp_path / "1").initial_probs.dtype == torch.float64


def test_what_has_no_format_is_refused(tmp_path):
    class Mine(Categorical):
        pass

    c = tt.Circuit()
    c.input(Mine(torch.rand(1, 2)), 0)
    with pytest.raises(FormatError, match="Mine has no file format"):
        tt.save(c, tmp_path)
    assert not (tmp_path / "config.json").exists()
    serialize.register(Mine, lambda layer: (layer.weight,))
    try:
        tt.save(c, tmp_path)
        assert isinstance(tt.load(tmp_path).layer(0), Mine)
    finally:
        del serialize.TYPES[Mine]


def rewrite(path, change):
    config = json.loads((path / "config.json").read_text())
    change(config)
    (path / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c.update(format="tractile-circuit-0"), lambda c: c.update(tensors_sha256="0"), lambda c: c.update(root=99),
        lambda c: c.update(root="1"), lambda c: c.pop("root"), lambda c: c.pop("nodes"), lambda c: c["nodes"].append([0]),
        lambda c: c["nodes"].append([77, [], None]), lambda c: c["nodes"][0].__setitem__(2, None),
        lambda c: c["nodes"][-1].__setitem__(1, [50]), lambda c: c["nodes"][-1].__setitem__(1, []),
        lambda c: c["layers"][0].update(type="os.system"), lambda c: c["layers"][0].update(args=[{"tensor": "absent"}]),
        lambda c: c["layers"][0].update(args=[]), lambda c: c["layers"].__setitem__(0, "Categorical"),
        lambda c: c.update(chain={"type": "Identity", "args": [3]}),
    ],
)  # fmt: skip
def test_odd_files_are_refused(change, tmp_path):
    rng = np.random.default_rng(0)
    tt.save(zoo.random_plan(rng, ("kron", 0, 1), {0: 2, 1: 2}).build(), tmp_path)
    tt.load(tmp_path)
    rewrite(tmp_path, change)
    with pytest.raises(FormatError, match=str(tmp_path)):
        tt.load(tmp_path)


def test_broken_files_are_refused(tmp_path):
    with pytest.raises(FormatError, match="not a saved model"):
        tt.load(tmp_path)
    tt.save(tt.HMM.random(2, 2) * tt.HMM.random(2, 2), tmp_path)
    for name in ("model.safetensors", "config.json"):
        content = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(content[: len(content) // 2])
        with pytest.raises(FormatError, match="not a saved model"):
            tt.load(tmp_path)
        (tmp_path / name).write_bytes(content)
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(FormatError, match="not a saved model"):
        tt.load(tmp_path)


def test_an_automaton_of_whole_numbers_is_refused(tmp_path):
    tt.save(tt.Automaton.from_edges([(0, 0, 1)], start=0, accept=[1], vocab_size=2), tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    save_file({n: t.long() for n, t in tensors.items()}, tmp_path / "model.safetensors")
    digest = hashlib.sha256((tmp_path / "model.safetensors").read_bytes()).hexdigest()
    rewrite(tmp_path, lambda config: config.update(tensors_sha256=digest))
    with pytest.raises(FormatError, match="initial and final must be floating point"):
        tt.load(tmp_path)


@pytest.mark.parametrize("weight", [-0.5, float("inf"), float("nan")])
@pytest.mark.parametrize("name", range(4))
def test_weights_that_are_none_are_refused(tmp_path, name, weight):
    """In each tensor of a chain: initial, emission, transition, final."""
    ones, half = torch.ones(2), torch.full((2, 2), 0.5)
    chain = tt.circuits.Chain(
        (ones,), Identity(2), Categorical(half.clone()), Dense(half.clone()), (ones.clone(),)
    )
    tt.save(chain, tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    assert len(tensors) == 4
    tensors[str(name)].view(-1)[0] = weight
    save_file(tensors, tmp_path / "model.safetensors")
    digest = hashlib.sha256((tmp_path / "model.safetensors").read_bytes()).hexdigest()
    rewrite(tmp_path, lambda config: config.update(tensors_sha256=digest))
    with pytest.raises(FormatError, match=f"{tmp_path}.*(NaN|finite and not negative)"):
        tt.load(tmp_path)


class Named(tt.HMM):
    """An HMM of a class of its own."""


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("transition", ["dense", "monarch"])
def test_an_hmm_loads_to_the_same_bits(tmp_path, dtype, transition):
    hmm = tt.HMM.random(37, 41, transition, seed=3, dtype=dtype)
    rough = tt.HMM(*(hmm.initial_probs, hmm.transition, hmm.emission_probs * (1 + 1e-7)))
    for model in (hmm, rough):
        model.save_pretrained(tmp_path)
        for loaded in (
            tt.HMM.from_pretrained(tmp_path),
            tt.load(tmp_path),
            model.to("cpu"),
            model.to(dtype=dtype),
        ):
            assert all(
                torch.equal(a, b) for a, b in zip(loaded.parameters(), model.parameters(), strict=True)
            )


def test_a_subclass_of_hmm_stays_one(tmp_path):
    plain = tt.HMM.random(3, 4)
    model = Named(plain.initial_probs, plain.transition, plain.emission_probs)
    assert type(model.to(dtype=torch.float64)) is type(model.map(torch.clone)) is Named
    model.save_pretrained(tmp_path)
    assert type(Named.from_pretrained(tmp_path)) is Named
    with pytest.raises(tt.errors.ShapeError, match="transition"):
        model.map(lambda t: 2 * t if t.ndim == 2 else t)


def test_the_names_of_types_in_files_stay():
    """Files that were written are read by them."""
    names = """Automaton Bernoulli Categorical Chain ClassCategorical Constant Dense Gaussian HMM Hadamard Identity
    Incidence Indicator Joint Kron Kronecker Labels Monarch RowKron Sum"""
    assert sorted(serialize.file_name(cls) for cls in serialize.TYPES) == names.split()
    assert serialize.FORMAT == "tractile-circuit-1"


def test_subclasses_are_written_as_their_class_only_where_that_is_said(tmp_path):
    class Mine(Categorical):
        pass

    class Finer(Mine):
        pass

    c = tt.Circuit()
    c.input(Finer(torch.rand(1, 2)), 0)
    for subclasses in (False, True):
        serialize.register(Mine, lambda layer: (layer.weight,), subclasses=subclasses)
        try:
            if subclasses:
                tt.save(c, tmp_path)
                assert type(tt.load(tmp_path).layer(0)) is Mine
            else:
                with pytest.raises(FormatError, match="Finer has no file format"):
                    tt.save(c, tmp_path)
        finally:
            del serialize.TYPES[Mine]
