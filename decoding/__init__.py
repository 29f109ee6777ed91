"""Decoding with constraints in other programs: logits processors, beam search."""

from .beam import Beam, beam_search
from .logits_processor import ConstraintLogitsProcessor

__all__ = ["Beam", "ConstraintLogitsProcessor", "beam_search"]
