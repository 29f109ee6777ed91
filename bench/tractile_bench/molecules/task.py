"""Molecules: after twenty of them as SMILES, write another (Loula et al. 2025, section 3 and appendix E.2)."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import combinations, islice
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple, cast

from tractile.constraints import Constraint
from tractile.errors import FormatError, TractileError
from tractile.inference.smc import FunctionPotential, Potential

from .. import prompts
from ..base import Example, Task
from ..files import find, read_lines
from .smiles_grammar import smiles

if TYPE_CHECKING:
    from rdkit.Chem import Mol

LISTS = {
    "test": ("GDB17_sample", "GDB17", "GDB17.50000000", "test", "molecules"),
    "train": ("train", "qm9", "molecules", "GDB17"),
}
MOST = 1_000_000
"""The most molecules read from a list; GDB-17's own list has fifty times as many."""

SMILES = re.compile(r"[A-Za-z0-9@+\-\[\]()=#$:/\\%.*]+")
HEADER = re.compile("smiles|smi$", re.IGNORECASE)
"""A header that the first line of a list may be."""


class Molecules(Task):
    """Molecules: continue a list of molecules by another one.

    ``data``: a list of SMILES, one a line, names after white space allowed (.smi, .txt); or a folder of such lists, in which
    GDB-17's is used for "test", ``train`` or QM9's for "train". ``count`` prompts are drawn with ``seed``, each of ``shown``
    molecules; the reference is one more molecule of the list, since no answer is the right one. The constraint is the syntax
    of SMILES (:func:`~.smiles_grammar.smiles` with ``depth`` and ``rings``), with atoms in brackets if the list has any. The
    potential is 1 if ``partialsmiles`` accepts a partial text as the beginning of a molecule, and a whole text as a molecule.

    Scores: ``qed``, the drug-likeness of Bickerton et al. (2012) by RDKit, 0 if RDKit cannot read the text; ``valid``, whether
    RDKit can read it; ``novel``, whether the molecule is not among those shown. Needs ``tractile-bench[tasks]``.
    """

    name: ClassVar[str] = "molecules"
    metric: ClassVar[str] = "qed"
    max_new_tokens: ClassVar[int] = 48
    one_line: ClassVar[bool] = True

    def __init__(
        self,
        data: str | Path,
        *,
        count: int = 100,
        shown: int = 20,
        seed: int = 0,
        depth: int = 4,
        rings: int = 5,
    ) -> None:
        self.data, self.count, self.shown, self.seed = Path(data), count, shown, seed
        self.depth, self.rings = depth, rings
        self._dropped: dict[str, list[str]] = {}

    @property
    def dropped(self) -> Mapping[str, Sequence[str]]:
        return self._dropped

    def examples(self, split: str = "test") -> Iterator[Example]:
        if split not in LISTS:
            raise FormatError(f'the splits of molecules are {", ".join(LISTS)}, not "{split}"')
        parser(), molecule("C")  # what reads the texts must be there before the first one
        path = find(self.data, *(f"{name}.{ending}" for name in LISTS[split] for ending in ("smi", "txt")))
        self._dropped = {}
        listed = list(islice(self._molecules(path), MOST))
        if len(listed) <= self.shown:
            bad = "".join(f"; {len(lines)} are {reason}" for reason, lines in self._dropped.items())
            raise FormatError(
                f"{path} has {len(listed)} molecules; for prompts of {self.shown} one more is needed{bad}"
            )
        brackets = any("[" in one for one in listed)
        draw = random.Random(f"{split} {self.seed}")
        for number in range(self.count):
            *shown, reference = draw.sample(listed, self.shown + 1)
            facts = {"shown": shown, "brackets": brackets}
            yield Example(f"{split}-{self.seed}-{number}", prompts.molecules(shown), reference, facts)

    def _molecules(self, path: Path) -> Iterator[str]:
        for number, line in enumerate(read_lines(path), 1):
            if parts := line.split():
                if SMILES.fullmatch(parts[0]) and not (number == 1 and HEADER.search(parts[0])):
                    yield parts[0]
                else:
                    self._dropped.setdefault("lines that are not SMILES", []).append(f"line {number}")

    def constraint(self, example: Example) -> Constraint:
        return smiles(self.depth, self.rings, example.facts["brackets"])

    def potential(self, example: Example) -> Potential:
        parser()  # raise now if partialsmiles is not installed
        return FunctionPotential(unfinished, every_atom, final=finished, name="partialsmiles")

    def scores(self, example: Example, text: str) -> dict[str, float]:
        found = molecule(text)
        if found is None:
            return {"qed": 0.0, "valid": 0.0, "novel": 0.0}
        shown = (molecule(one) for one in example.facts["shown"])
        novel = all(one is None or one.canonical != found.canonical for one in shown)
        return {"qed": found.qed, "valid": 1.0, "novel": float(novel)}

    def meaning(self, example: Example, text: str) -> str:
        found = molecule(text)
        return text if found is None else found.canonical

    def aggregate(self, answers: Sequence[tuple[Example, Mapping[str, float]]]) -> dict[str, float]:
        """Compute ``distinct`` and ``diversity`` of the molecules among the heaviest answers; {} if there are fewer than two.

        ``distinct``: the share of different molecules; ``diversity``: 1 − mean Tanimoto similarity of two of them (Morgan
        fingerprints of radius 2, 2,048 bits)."""
        from rdkit import DataStructs
        from rdkit.Chem import rdFingerprintGenerator

        best = [max(weights, key=weights.__getitem__) for _, weights in answers if weights]
        found = [one for one in map(molecule, best) if one is not None]
        if len(found) < 2:
            return {}
        morgan = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
        prints = [morgan.GetFingerprint(one.mol) for one in found]
        alike = [DataStructs.TanimotoSimilarity(a, b) for a, b in combinations(prints, 2)]
        return {
            "distinct": len({one.canonical for one in found}) / len(found),
            "diversity": 1 - sum(alike) / len(alike),
        }


def every_atom(text: str) -> int:
    """Return the boundary after the last character outside brackets, where ``partialsmiles`` refuses the first letter of [Li]."""
    start = text.rfind("[")
    return start if text.find("]", start) < start else len(text)


@lru_cache(maxsize=1)
def parser() -> Callable[..., object]:
    """Import ``partialsmiles.ParseSmiles``. Raises ``TractileError`` if it is not installed."""
    try:
        from partialsmiles import ParseSmiles
    except ImportError:
        raise TractileError(
            "unfinished molecules are read by partialsmiles: pip install partialsmiles"
        ) from None
    return cast(Callable[..., object], ParseSmiles)


def unfinished(text: str) -> bool:
    """Return whether ``partialsmiles`` accepts the text as the beginning of a molecule."""
    return _parses(text, partial=True)


def finished(text: str) -> bool:
    """Return whether ``partialsmiles`` accepts the text as a whole molecule."""
    return _parses(text, partial=False)


def _parses(text: str, partial: bool) -> bool:
    parse = parser()
    try:
        parse(text, partial=partial)
    except Exception:  # the parser's own errors, and others on texts such as C%1
        return False
    return True


class Read(NamedTuple):
    """A molecule that RDKit has read: the RDKit object, its canonical SMILES, its drug-likeness from 0 to 1."""

    mol: Mol
    canonical: str
    qed: float


@lru_cache(maxsize=1 << 14)
def molecule(text: str) -> Read | None:
    """Read a molecule by RDKit; None if the text is no molecule."""
    try:
        from rdkit import Chem, rdBase
        from rdkit.Chem import QED
    except ImportError:
        raise TractileError("molecules are read by RDKit: pip install rdkit") from None
    if not SMILES.fullmatch(text):  # RDKit reads past what stands after a space
        return None
    with rdBase.BlockLogs():
        mol = Chem.MolFromSmiles(text)
        return None if mol is None else Read(mol, Chem.MolToSmiles(mol), QED.qed(mol))
