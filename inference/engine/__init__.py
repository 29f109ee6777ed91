"""The contraction engine: one einsum over the factors of layers, and passes over circuits and chains."""
