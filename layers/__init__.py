"""Layers of circuits: tensors with the rules by which the engine contracts them.

Inside the engine the unit axes of a message come first and the batch last, so that gathers and segment-sums along units are
contiguous. In arguments and results of public functions the batch comes first.
"""

from .classes import ClassCategorical
from .discrete import Bernoulli, Indicator, Table
from .gaussian import Continuous, Gaussian
from .incidence import Identity, Incidence
from .inner import Hadamard, Kronecker, Product, Sum
from .input import Categorical, InputLayer
from .monarch import Monarch
from .operator import AxisOperator, Dense, Kron, Leaf, Operator
from .token_sets import TokenSets

__all__ = [
    "Bernoulli",
    "Categorical",
    "ClassCategorical",
    "Continuous",
    "Dense",
    "Gaussian",
    "Hadamard",
    "Identity",
    "Incidence",
    "Indicator",
    "InputLayer",
    "Kron",
    "Kronecker",
    "TokenSets",
    "Leaf",
    "Monarch",
    "Operator",
    "Product",
    "AxisOperator",
    "Sum",
    "Table",
]
