"""Every potential is a function of the sequence, whatever the rows beside it: the library's, and one that an outsider writes."""

import itertools
import math

import pytest
from smc_reference import (
    CASES,
    HMM,
    Follows,
    Fsa,
    N,
    V,
    as_automaton,
    phi,
    random_table,
    sequence_log_prob,
    spelled,
)  # fmt: skip

import tractile as tt
from tractile.inference.smc import (
    ConstraintPotential,
    FunctionPotential,
    LookaheadPotential,
    PrefixPotential,
    at_end,
    every_clause,
    every_line,
    every_statement,
    every_token,
)  # fmt: skip
from tractile.testing import check_potential

OTHER = tt.lm.TableLM(random_table(V, 1, seed=9))
NO_TWO_ZEROS = Fsa([(0, [1, 2], 0), (0, 0, 1), (1, [1, 2], 0)], 0, [0, 1], V)


def phi_tokens(tokens):
    return phi("".join(("a, ", "b\n", "c")[t] for t in tokens))


def zero_after_two(text):
    """No text with two b's, whatever follows."""
    return 0.0 if text.count("b") > 1 else 1.5


def some_a(text):
    return 0.5 + text.count("a")


def shifted_boundary(text):
    return len(text) // 3


def of_text(function):
    return lambda x, case: function(spelled(x, case))


def under(lm, power):
    return lambda x, case: math.exp(power * sequence_log_prob(lm, x))


def apart(x, case):
    return float(NO_TWO_ZEROS.accepts(x))


BOUNDARIES = (every_token, every_line, every_clause, every_statement, at_end, shifted_boundary)
NO_ZEROS = as_automaton(NO_TWO_ZEROS)
# name: (potential, Ψ of a complete sequence)
POTENTIALS = {
    **{f"text, {b.__name__}": (lambda b=b: FunctionPotential(phi, b), of_text(phi)) for b in BOUNDARIES},
    "batched": (lambda: FunctionPotential(lambda texts: map(phi, texts), batched=True), of_text(phi)),
    "log": (lambda: FunctionPotential(lambda text: math.log(phi(text)), every_line, log=True), of_text(phi)),
    "tokens": (
        lambda: FunctionPotential(phi_tokens, lambda tokens: len(tokens) // 2, tokens=True), lambda x, case: phi_tokens(x),
    ),
    "zero": (lambda: FunctionPotential(zero_after_two), of_text(zero_after_two)),
    "final": (lambda: FunctionPotential(phi, final=some_a), of_text(some_a)),
    "a twist": (lambda: FunctionPotential(phi, twist=True), None),
    "prefix": (PrefixPotential, None),
    "lookahead": (LookaheadPotential, None),
    "lookahead, half": (lambda: LookaheadPotential(0.5), None),
    "an outsider's": (lambda: Follows(1.0, OTHER), under(OTHER, 1.0)),
    "contrast": (lambda: Follows(-0.4, OTHER), under(OTHER, -0.4)),
    "contrast, held": (lambda: Follows(-0.4, OTHER).at(every_line), under(OTHER, -0.4)),
    "constraint": (lambda: ConstraintPotential(NO_ZEROS), apart),
    "constraint, budget": (lambda: ConstraintPotential(NO_ZEROS, budgeted=True), apart),
    "constraint, held": (lambda: ConstraintPotential(NO_ZEROS).at(every_line), apart),
    "a product": (
        lambda: FunctionPotential(phi, every_line) * Follows(0.5, OTHER) * FunctionPotential(zero_after_two),
        lambda x, case: phi(spelled(x, case)) * under(OTHER, 0.5)(x, case) * zero_after_two(spelled(x, case)),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "case"), list(itertools.product(POTENTIALS, CASES)))
def test_its_values_are_those_of_the_sequences(name, case):
    lm, fsa = CASES[case]
    make, psi = POTENTIALS[name]
    value = psi if psi is None else lambda tokens: psi(tuple(tokens), case)
    check_potential(make(), lm, as_automaton(fsa), HMM, horizon=N, value=value)
