"""The query of a chain × an automaton as it is inside ``tt.pgcd``: the automaton is taken as given."""

import tractile as tt
from tractile.inference.next_token.pgcd import PGCDQuery


def product(chain, automaton, horizon, **options):
    return PGCDQuery(chain, tt.gcd(automaton, horizon), automaton, horizon, **options)


def padded(chain, automaton, horizon, **options):
    """With steps of fixed shapes."""
    return product(chain, automaton, horizon, padded=True, **options)
