"""Queries on models of another device, on stand-ins: operands on two devices are refused, and no value can be read."""

import numpy as np
import pytest
import torch
from oracle import random_fsa
from stand_ins import CUDA, Sliced
from torch._subclasses.fake_tensor import FakeTensorMode

import tractile as tt
from tractile.layers import Indicator, TokenSets


def models():
    hmm = tt.HMM.random(4, 3, dtype=torch.float64)
    monarch = tt.HMM.random(4, 3, "monarch", dtype=torch.float64)
    fa = random_fsa(np.random.default_rng(0), 3, 3, True).build()
    return {
        "hmm": hmm, "monarch": monarch, "automaton": fa, "product": hmm * fa, "unrolled": hmm.unroll(3),
        "unrolled automaton": fa.unroll(3), "unrolled product": (hmm * fa).unroll(3),
        "product of unrolled": monarch.unroll(3) * fa.unroll(3),
        "conditioned": tt.inference.condition(hmm.unroll(3), {1: {0, 1}, 2: 1}),
        "marginalised": tt.circuits.marginalise(fa.unroll(3) * hmm.unroll(3), [1]),
    }  # fmt: skip


QUERIES = {
    "log_marginal": lambda m, e, n: tt.log_marginal(m, e, n=n),
    "conditional": lambda m, e, n: tt.conditional(m, e, 0, n=n),
    "marginals": lambda m, e, n: tt.inference.marginals(m, e, n=n)[0],
    "support": lambda m, e, n: tt.support(m, e, n=n),
}


stand_ins = pytest.mark.skipif(
    torch.version.cuda is not None and not torch.cuda.is_available(),
    reason="a torch built for CUDA asks the driver, also of stand-ins",
)


@pytest.mark.long
@stand_ins
@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("name", models())
def test_a_query_stays_on_the_device_of_its_model(name, query):
    """Evidence on the CPU, of every kind, is moved to the model."""
    model = models()[name]
    circuit = isinstance(model, tt.Circuit)
    tokens, soft = torch.tensor([1, 2]), torch.rand(2, 3, dtype=torch.float64)
    with FakeTensorMode(allow_non_fake_inputs=True), Sliced():
        there = model.map(lambda t: torch.empty(t.shape, dtype=t.dtype, device=CUDA))
        assert there.device == CUDA
        for evidence in (None, {0: tokens}, {0: {0, 1}}, {0: soft}):
            found = QUERIES[query](there, evidence, None if circuit else 3)
            assert found.device == CUDA, (name, query, evidence)


def test_a_circuit_moves():
    circuit = tt.HMM.random(3, 4).unroll(3)
    there = circuit.to("meta", torch.float64)
    assert {(p.device.type, p.dtype) for p in there.parameters()} == {("meta", torch.float64)}
    assert len(there.parameters()) == len(circuit.parameters())  # what was tied still is
    assert there.device.type == "meta"
    assert torch.equal(circuit.to("cpu").parameters()[0], circuit.parameters()[0])
    empty = tt.Circuit()
    empty.input(Indicator(3), 0)
    assert empty.device.type == "cpu"
    assert tt.log_marginal(there, torch.zeros(2, 3, dtype=torch.long)).shape == (2,)


@stand_ins
def test_structure_alone_is_summed_where_the_evidence_is():
    """Layers without parameters."""
    labels = TokenSets(torch.tensor([0, 1]), torch.tensor([0, 1]), torch.tensor([0, 0, 1]), 2)
    layers = labels, Indicator(3)
    with FakeTensorMode(allow_non_fake_inputs=True), Sliced():
        for layer in layers:
            for semiring in (tt.inference.Real(), tt.inference.Log(), tt.inference.Boolean()):
                value = tt.inference.engine.contract.total(semiring, layer, CUDA)
                assert semiring.device(value) == CUDA


def test_a_chain_moves():
    """Chains, HMMs and automata by ``to``: device and precision; what was tied still is."""
    hmm = tt.HMM.random(4, 3)
    for chain in (hmm, tt.HMM.random(4, 3, "monarch"), hmm * hmm, hmm * models()["automaton"]):
        there = chain.to("meta", torch.float64)
        assert type(there) is type(chain)
        assert {(p.device.type, p.dtype) for p in there.parameters()} == {("meta", torch.float64)}
        ties = {len({id(p) for p in c.parameters()}) for c in (chain, there)}
        assert len(ties) == 1
    double = models()["automaton"].to(dtype=torch.float64)
    assert double.initial[0].dtype == torch.float64
    assert tt.count(double, n=3) == tt.count(models()["automaton"], n=3)
