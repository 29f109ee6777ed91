"""Layers: tensors that know how to be contracted.

Inside the engine the unit axes of a message come first and the batch last (gathers and segment-sums along units are
then contiguous); at the public face the batch comes first.
"""

from .inner import Hadamard, InnerLayer, Kronecker, Sum
from .input import Categorical, Constant, InputLayer, Labels, RowKron
from .operator import Dense, Diagonal, Identity, Incidence, Kron, Leaf, Monarch, Operator, Structured

__all__ = [
    "Categorical",
    "Constant",
    "Dense",
    "Diagonal",
    "Hadamard",
    "Identity",
    "Incidence",
    "InnerLayer",
    "InputLayer",
    "Kron",
    "Kronecker",
    "Labels",
    "Leaf",
    "Monarch",
    "Operator",
    "RowKron",
    "Structured",
    "Sum",
]
