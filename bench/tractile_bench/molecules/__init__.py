"""Molecules in SMILES."""
