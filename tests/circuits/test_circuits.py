"""Plain circuits: multiplication, structural properties, shapes; HMMs and what their files lack."""

import itertools
import json

import numpy as np
import oracle
import pytest
import torch
from oracle import assert_log_close

import tractile as tt
from tractile.circuits import is_compatible, is_decomposable, is_smooth
from tractile.circuits.checks import check_decomposable, check_smooth
from tractile.circuits.graph import Graph
from tractile.circuits.graph_transforms import rewrite
from tractile.errors import CircuitError, FormatError, ShapeError, VocabularyMismatch
from tractile.layers import Categorical, Dense, Hadamard, Kronecker, Sum
from tractile.layers.input import Constant


def weights_on(rng, vocab_size, units=1):
    return torch.tensor(rng.random((units, vocab_size)))


# --------------------------------------------------------------------------------------------------- multiplication


def pair(layer, first, second, sizes=(2, 2, 2)):
    """A circuit (first)(second): a product of mixtures of products over the variables named."""
    rng, circuit = np.random.default_rng(0), tt.Circuit()

    def group(variables):
        nodes = [circuit.input(Categorical(weights_on(rng, sizes[v], 2)), v) for v in variables]
        node = nodes[0] if len(nodes) == 1 else circuit.product(layer, *nodes)
        units = np.prod(circuit.unit_dims(node))
        return circuit.sum(Sum(Dense(torch.tensor(rng.random((2, units))))), node)

    node = circuit.product(layer, group(first), group(second))
    circuit.sum(Sum(Dense(torch.tensor(rng.random((1, np.prod(circuit.unit_dims(node))))))), node)
    return circuit


def test_what_cannot_be_multiplied_is_refused():
    a, hmm = pair(Hadamard(), [0], [1, 2]), tt.HMM.random(2, 2)
    with pytest.raises(CircuitError, match="unroll"):
        tt.multiply(a, hmm)
    with pytest.raises((VocabularyMismatch, ShapeError), match="3"):
        a * pair(Hadamard(), [0], [1, 2], sizes=(2, 3, 2))
    with pytest.raises(VocabularyMismatch, match="3"):
        hmm * tt.HMM.random(2, 3)


def test_compatible_is_what_can_be_multiplied():
    """is_compatible says yes exactly where ``*`` succeeds, and then the product is right, on pairs of circuits of every shape."""
    shapes = [
        pair(layer(), first, second)
        for layer in (Hadamard, Kronecker)
        for first, second in (([0], [1, 2]), ([0, 1], [2]), ([1, 2], [0]))
    ]
    x = torch.tensor(list(itertools.product(range(2), repeat=3)))
    seen = set()
    for a, b in itertools.product(shapes, repeat=2):
        try:
            product = a * b
            works = True
        except CircuitError:
            works = False
        assert is_compatible(a, b) == works
        seen.add(works)
        if works:
            assert_log_close(tt.log_marginal(product, x), tt.log_marginal(a, x) + tt.log_marginal(b, x))
    assert seen == {True, False}


# ------------------------------------------------------------------------------------------------------- properties


def broken(kind):
    rng, circuit = np.random.default_rng(0), tt.Circuit()
    a, b = (circuit.input(Categorical(weights_on(rng, 2)), v) for v in (0, 1))
    one = Dense(torch.ones(1, 1, dtype=torch.float64))
    if kind == "sum":
        circuit.sum(Sum(one, one), a, b)
    else:
        other = circuit.input(Categorical(weights_on(rng, 2)), 0)
        circuit.product(Hadamard() if kind == "hadamard" else Kronecker(), a, other)
    return circuit


@pytest.mark.parametrize("kind", ["sum", "hadamard", "kronecker"])
def test_the_property_that_fails_is_named_with_its_node(kind):
    circuit = broken(kind)
    assert is_smooth(circuit) == (kind != "sum")
    assert is_decomposable(circuit) == (kind == "sum")
    check, word = (check_smooth, "smooth") if kind == "sum" else (check_decomposable, "decomposable")
    with pytest.raises(CircuitError, match=rf"node {circuit.root} \(.*{kind.title()}.* is not {word}"):
        check(circuit)
    for query in (tt.partition, tt.mpe, tt.sample, lambda c: tt.conditional(c, None, 0), lambda c: c * c):
        with pytest.raises(CircuitError, match=word):
            query(circuit)


# ------------------------------------------------------------------------------------------------- shapes and errors


def test_shape_errors_name_the_layer():
    circuit = tt.Circuit()
    a = circuit.input(Categorical(torch.ones(2, 3)), 0)
    b = circuit.input(Categorical(torch.ones(3, 3)), 1)
    with pytest.raises(ShapeError, match=r"Sum.*Dense\(1, 5\)"):
        circuit.sum(Sum(Dense(torch.ones(1, 5))), a)
    with pytest.raises(ShapeError, match="Hadamard"):
        circuit.product(Hadamard(), a, b)
    with pytest.raises(ShapeError, match="Kronecker"):
        circuit.product(Kronecker([0, 1, 2]), a, b)
    with pytest.raises(ShapeError, match=r"Hadamard.*node 9"):
        circuit.product(Hadamard(), a, 9)
    with pytest.raises(ShapeError, match="Categorical"):
        circuit.input(Categorical(torch.ones(2, 3)))
    with pytest.raises(ShapeError, match="Constant"):
        circuit.input(Constant(), 0)


@pytest.mark.parametrize("n", [-1, 2.0])
def test_a_chain_is_unrolled_to_a_whole_number_of_tokens(n):
    with pytest.raises(ShapeError, match="unroll"):
        tt.HMM.random(2, 2).unroll(n)


def test_chains_check_their_shapes():
    hmm = tt.HMM.random(3, 4)
    with pytest.raises(ShapeError, match="columns"):
        tt.circuits.Chain(hmm.initial, Dense(torch.ones(3, 2)), hmm.inputs, hmm.right, hmm.final)
    with pytest.raises(ShapeError, match="R must map"):
        tt.circuits.Chain(hmm.initial, hmm.left, hmm.inputs, Dense(torch.ones(3, 2)), hmm.final)
    for bad in (torch.ones(2), torch.ones(3, 1)):
        with pytest.raises(ShapeError, match="initial"):
            tt.circuits.Chain((bad,), hmm.left, hmm.inputs, hmm.right, hmm.final)
        with pytest.raises(ShapeError, match="final"):
            tt.circuits.Chain(hmm.initial, hmm.left, hmm.inputs, hmm.right, (bad,))


# ------------------------------------------------------------------------------------------------------------- HMMs


def test_random_hmms_are_reproducible_and_normalised():
    for transition in ("dense", "monarch"):
        a, b = (tt.HMM.random(6, 4, transition=transition, seed=s, dtype=torch.float64) for s in (1, 1))
        assert all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters(), strict=True))
        assert not torch.equal(
            a.initial_probs, tt.HMM.random(6, 4, seed=2, dtype=torch.float64).initial_probs
        )
        assert abs(tt.partition(a, n=5).item()) < 1e-12
    with pytest.raises(ShapeError, match="transition"):
        tt.HMM.random(3, 3, transition="sparse")


def test_what_is_not_a_saved_hmm_is_refused(tmp_path):
    with pytest.raises(FormatError):
        tt.HMM.from_pretrained(tmp_path / "nothing")
    tt.HMM.random(2, 2).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"format": "another"}))
    with pytest.raises(FormatError, match="format"):
        tt.HMM.from_pretrained(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(FormatError):
        tt.HMM.from_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.safetensors").write_bytes(b"cut off")
    with pytest.raises(FormatError):
        tt.HMM.from_pretrained(tmp_path)


def test_a_file_that_lacks_a_part_is_refused(tmp_path):
    from safetensors.torch import load_file, save_file

    tt.HMM.random(2, 2).save_pretrained(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    for missing in tensors:
        save_file({k: v for k, v in tensors.items() if k != missing}, tmp_path / "model.safetensors")
        with pytest.raises(FormatError):
            tt.HMM.from_pretrained(tmp_path)
    save_file(tensors, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps({"format": "tractile-hmm-1"}))
    with pytest.raises(FormatError):
        tt.HMM.from_pretrained(tmp_path)


def test_parameters_that_are_no_distribution_are_refused():
    good = (torch.full((2,), 0.5), torch.full((2, 2), 0.5), torch.full((2, 3), 1 / 3))
    tt.HMM(*good)
    for i, what in enumerate(("initial", "transition", "emission")):
        for bad in (good[i] * 2, good[i].log(), good[i] * torch.nan):
            with pytest.raises(ShapeError, match=what):
                tt.HMM(*good[:i], bad, *good[i + 1 :])
    with pytest.raises(ShapeError):
        tt.HMM(good[0], torch.eye(3), good[2])


def test_map_reaches_every_parameter_of_a_chain_once():
    """The ends too, in the order of `parameters`."""
    rng = np.random.default_rng(0)
    chain = oracle.random_hmm(rng, 3, 4).build() * oracle.random_fsa(rng, 3, 4, False).build()
    met = []
    found = chain.map(lambda p: met.append(p) or 2 * p)
    assert [id(p) for p in met] == [id(p) for p in chain.parameters()]
    assert len(found.parameters()) == len(met)
    for doubled, p in zip(found.parameters(), met, strict=True):
        assert torch.equal(doubled, 2 * p)
    apart = [p for factor in found.factors for p in factor.parameters()]
    assert {id(p) for p in apart} == {id(p) for p in found.parameters()}


@pytest.mark.parametrize("variable", ["0", -1, 1.0, True, (0,)])
def test_a_variable_is_a_whole_number(variable):
    coin = tt.layers.Bernoulli(torch.tensor([0.5]))
    with pytest.raises(tt.errors.CircuitError, match="whole number"):
        tt.Circuit().input(coin, variable)
    made = tt.Circuit()
    made.input(coin, 0)
    with pytest.raises(tt.errors.CircuitError, match="whole number"):
        made.relabel({0: variable})


def test_checks_and_copies_take_a_graph_alone():
    graph = Graph()
    coin = Categorical(torch.tensor([[0.5, 0.5]]))
    x, unused, y = graph.input(coin, 0), graph.input(coin, 2), graph.input(coin, 1)
    both = graph.product(Hadamard(), x, y)
    assert (graph.nodes(), graph.nodes(y), graph.num_layers) == ([x, y, both], [y], 4)
    assert [node in graph for node in (unused, 4, -1, "0")] == [True, False, False, False]
    check_smooth(graph)
    copy = rewrite(graph, lambda *_: None)
    assert type(copy) is Graph
    assert (copy.nodes(), copy.scope(copy.root)) == ([0, 1, 2], {0, 1})
    graph.product(Hadamard(), x, both)
    with pytest.raises(CircuitError, match=r"node 4 .* is not decomposable"):
        check_decomposable(graph)
