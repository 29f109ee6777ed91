"""The checks of ``tractile.testing`` refuse what breaks a promise, and name it."""

import pytest
import torch
from smc_reference import Follows, ForgetsItsWeight, Fsa, as_automaton, random_table

import tractile as tt
from tractile import testing
from tractile.inference import Log, MaxProduct
from tractile.inference.next_token.gcd import GCDQuery
from tractile.inference.smc import FunctionPotential
from tractile.inference.smc.resampling import stratified
from tractile.layers import Categorical, Dense, Gaussian, Hadamard

V = 3
LM = tt.lm.TableLM(random_table(V, 1, seed=3))
FA = as_automaton(Fsa([(0, 0, 0), (0, 1, 1), (1, [0, 1, 2], 1)], 0, [1], V))
WEIGHTS = torch.tensor([[0.9, 0.1], [0.3, 0.7]])


class OtherTranspose(Dense):
    @property
    def T(self):
        return self


class OtherColumns(Categorical):
    def columns(self, tokens):
        return (self.weight[..., tokens.flip(0)],)


class KeepsItsParameters(Categorical):
    def map(self, fn):
        return self


class OtherDraws(Gaussian):
    def draw(self, unit, generator=None):
        return super().draw(unit, generator) * 1.2


class OtherParts(Hadamard):
    def parts(self, units, children):
        return [part.flip(0) for part in super().parts(units, children)]


class Averages(Log):
    def add(self, a, b):
        return (a + b) / 2


class TakesTheFirst(MaxProduct):
    def reduce(self, x, axes):
        return x.amin(tuple(axes)) if axes else x


class SeesOtherRows(tt.lm.TableLM):
    def log_probs(self):
        table = super().log_probs()
        return (table + table.flip(0)).log_softmax(1)


class NeverWaits(tt.lm.TableLM):
    def advance(self, tokens):
        super().advance(tokens.clamp(min=0))


class ForgetsRows(Follows):
    """Its states stay in the order that they had."""

    def advance(self, indices, tokens):
        super().advance(torch.arange(len(indices)) % len(self.total), tokens)


class OtherEnd(Follows):
    is_twist = True


def first_only(weights, generator, count):
    return torch.full((count,), int(weights.argmax()))


def revives(weights, generator, count):
    """Each particle once, the dead too, if there are as many as are asked for."""
    return torch.arange(count) if count == len(weights) else stratified(weights, generator, count)


class AllowsAll(GCDQuery):
    def mask(self):
        return torch.ones_like(super().mask())


class ForgetsToSelect(GCDQuery):
    def select(self, indices):
        super().select(sorted(torch.as_tensor(indices).long().tolist()))


class WeighsAll(GCDQuery):
    def log_weights(self):
        return super().log_weights().clamp(min=-50)


def query(cls):
    return lambda: cls(FA, 4)


FAULTS = {
    "a transpose": (lambda: testing.check_layer(OtherTranspose(WEIGHTS)), "T is the transposed matrix"),
    "columns": (lambda: testing.check_layer(OtherColumns(WEIGHTS)), r"columns\(\) are those of the table"),
    "parameters": (lambda: testing.check_layer(KeepsItsParameters(WEIGHTS)), "gives each parameter"),
    "draws": (lambda: testing.check_layer(OtherDraws(torch.zeros(1), torch.ones(1))), r"draw\(\) has the density"),
    "parts": (lambda: testing.check_layer(OtherParts()), "the product of its parts"),
    "a sum": (lambda: testing.check_semiring(Averages()), "⊕ is associative"),
    "a reduction": (lambda: testing.check_semiring(TakesTheFirst()), r"reduce\(\) adds the slices"),
    "rows": (lambda: testing.check_language_model(SeesOtherRows(random_table(V, 1, 3)), [[], [0]]), "what it says alone"),
    "waiting": (lambda: testing.check_language_model(NeverWaits(random_table(V, 1, 3)), [[], [0]]), "what it says alone"),
    "a weight": (lambda: testing.check_proposal(ForgetsItsWeight(), LM, FA), r"q\(x\) · W\(x\)"),
    "states": (lambda: testing.check_potential(ForgetsRows(1.0, LM), LM, FA), "that of the row alone"),
    "a twist": (lambda: testing.check_potential(OtherEnd(1.0, LM), LM, FA), "a twist has Ψ = 1"),
    "a value": (
        lambda: testing.check_potential(FunctionPotential(lambda text: 2.0), LM, FA, value=lambda tokens: 3.0),
        "log Ψ of a complete sequence",
    ),
    "ancestors": (lambda: testing.check_resampler(first_only), "the mean new weight is the weight"),
    "the dead": (lambda: testing.check_resampler(revives), "no particle of weight zero"),
    "a mask": (lambda: testing.check_next_token_query(query(AllowsAll)), r"mask\(\) is"),
    "the impossible": (lambda: testing.check_next_token_query(query(WeighsAll)), r"log_weights\(\): at .* it is -50, not -inf"),
    "a selection": (lambda: testing.check_next_token_query(query(ForgetsToSelect)), "remaining|mask"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_promise_is_named(fault):
    call, said = FAULTS[fault]
    with pytest.raises(AssertionError, match=said):
        call()
