"""Plain circuits: random DAGs against recursion, multiplication, structural properties, shapes; HMMs in files."""

import itertools
import json

import numpy as np
import oracle
import pytest
import torch
import zoo
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import assert_log_close, log

import tractile as tt
from tractile.circuits import is_compatible, is_decomposable, is_smooth, is_structured_decomposable
from tractile.circuits.checks import check_decomposable, check_smooth
from tractile.circuits.graph import Graph
from tractile.circuits.graph_transforms import rewrite
from tractile.errors import CircuitError, FormatError, ShapeError, VocabularyMismatch
from tractile.layers import Categorical, Dense, Hadamard, Kronecker, Monarch, Sum
from tractile.layers.input import Constant

FEW = settings(max_examples=30, deadline=None)


def weights_on(rng, vocab_size, units=1):
    return torch.tensor(rng.random((units, vocab_size)))


# ---------------------------------------------------------------------------------------------------------- queries


def test_a_parameter_shared_by_two_layers_is_one_parameter():
    w = torch.tensor([[0.2, 0.8]], dtype=torch.float64)
    circuit = tt.Circuit()
    circuit.product(Hadamard(), circuit.input(Categorical(w), 0), circuit.input(Categorical(w), 1))
    assert len(circuit.parameters()) == 1
    assert_log_close(tt.log_marginal(circuit, torch.tensor([[1, 1]])), [2 * np.log(0.8)])


def test_mixture_of_products_by_hand():
    """0.3 · p1(a) p1(b) + 0.7 · p2(a) p2(b), and its posterior."""
    p = torch.tensor([[0.5, 0.5], [0.1, 0.9]], dtype=torch.float64)
    q = torch.tensor([[0.6, 0.4], [0.2, 0.8]], dtype=torch.float64)
    circuit = tt.Circuit()
    both = circuit.product(Hadamard(), circuit.input(Categorical(p), 0), circuit.input(Categorical(q), 1))
    circuit.sum(Sum(Dense(torch.tensor([[0.3, 0.7]], dtype=torch.float64))), both)
    value = 0.3 * 0.5 * 0.4 + 0.7 * 0.9 * 0.8
    assert_log_close(tt.log_marginal(circuit, torch.tensor([[1, 1]])), [np.log(value)])
    given_b = np.array([0.3 * 0.5 * 0.4 + 0.7 * 0.1 * 0.8, value])
    assert_log_close(tt.conditional(circuit, {1: 1}, 0), log(given_b / given_b.sum())[None])


# --------------------------------------------------------------------------------------------------- multiplication


@given(st.data())
@settings(max_examples=15, deadline=None)
def test_the_product_of_three_circuits(data):
    vtree = data.draw(zoo.vtrees(3))
    plans = [data.draw(zoo.plans(vtree)) for _ in range(3)]
    a, b, c = (p.build() for p in plans)
    expected = np.prod([p.table("total") for p in plans], axis=0)
    for product in ((a * b) * c, a * (b * c)):
        assert_log_close(tt.partition(product), log(expected.sum()))


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


def test_circuits_that_split_their_scope_differently_are_not_compatible():
    for layer in (Hadamard(), Kronecker()):
        a, b = pair(layer, [0], [1, 2]), pair(layer, [0, 1], [2])
        assert not is_compatible(a, b)
        assert is_compatible(a, a)
        with pytest.raises(CircuitError, match=r"multiply: node"):
            a * b


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


@given(st.data())
@FEW
def test_random_plans_are_smooth_and_structured(data):
    circuit = data.draw(zoo.plans()).build()
    assert is_smooth(circuit)
    assert is_decomposable(circuit)
    assert is_structured_decomposable(circuit)


@given(oracle.chains(shapes=[(2, 3)], kinds=("hmm", "fsa", "hmm*fsa")))
@settings(max_examples=10, deadline=None)
def test_unrolled_chains_are_smooth_and_structured(drawn):
    circuit = drawn[0].build().unroll(3)
    assert circuit.variables == (0, 1, 2)
    assert is_smooth(circuit)
    assert is_structured_decomposable(circuit)


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


def test_decomposable_in_two_ways_is_not_structured():
    rng, circuit = np.random.default_rng(0), tt.Circuit()
    inputs = [circuit.input(Categorical(weights_on(rng, 2)), v) for v in range(3)]
    one = Sum(Dense(torch.ones(1, 1, dtype=torch.float64)))
    late, early = (circuit.product(Hadamard(), inputs[i], inputs[i + 1]) for i in (1, 0))
    left = circuit.product(Hadamard(), inputs[0], circuit.sum(one, late))
    right = circuit.product(Hadamard(), circuit.sum(one, early), inputs[2])
    circuit.sum(Sum(*one.operators, *one.operators), left, right)
    assert is_smooth(circuit)
    assert is_decomposable(circuit)
    assert not is_structured_decomposable(circuit)
    assert not is_compatible(circuit, circuit)
    assert tt.partition(circuit).isfinite()  # marginals do not need it


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


def test_two_inputs_over_one_variable_have_one_vocabulary():
    circuit = tt.Circuit()
    a, b = (circuit.input(Categorical(torch.ones(1, size)), 0) for size in (3, 4))
    one = Dense(torch.ones(1, 1))
    circuit.sum(Sum(one, one), a, b)
    with pytest.raises(CircuitError, match="variable 0"):
        tt.log_marginal(circuit, {0: 3})


def test_a_root_with_several_units_has_no_probability():
    circuit = tt.Circuit()
    circuit.input(Categorical(torch.ones(2, 3)), 0)
    with pytest.raises(CircuitError, match=r"root \(node 0\).*\(2,\)"):
        tt.partition(circuit)


def test_a_circuit_without_latent_choice_still_needs_paths_to_be_counted():
    circuit = pair(Hadamard(), [0], [1])
    with pytest.raises(CircuitError, match="paths"):
        tt.count(circuit)


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


@pytest.mark.parametrize(("hidden", "transition"), [(4, "dense"), (12, "monarch"), (7, "monarch")])
def test_an_hmm_survives_its_file(tmp_path, hidden, transition):
    hmm = tt.HMM.random(hidden, 5, transition=transition, seed=3)
    hmm.save_pretrained(tmp_path)
    again = tt.HMM.from_pretrained(tmp_path)
    assert isinstance(again.transition, Monarch) == (transition == "monarch")
    x = torch.randint(0, 5, (4, 6), generator=torch.Generator().manual_seed(0))
    assert_log_close(tt.log_marginal(again, x), tt.log_marginal(hmm, x), 1e-6)
    assert_log_close(
        tt.log_marginal(tt.HMM.from_pretrained(tmp_path, torch.float64), x), tt.log_marginal(hmm, x), 1e-5
    )


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


def test_moving_and_casting_an_hmm():
    hmm = tt.HMM.random(4, 3, transition="monarch")
    double = hmm.to(dtype=torch.float64)
    assert all(p.dtype == torch.float64 for p in double.parameters())
    assert abs(tt.partition(double, n=6).item()) < 1e-12


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
