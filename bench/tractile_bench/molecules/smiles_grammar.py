"""The syntax of SMILES (Weininger 1988) as a regular language: branches to a depth, ring closures in pairs.

    molecule  = chain ("." chain)*
    chain     = (atom closure* branch* bond?)* atom closure*        the last part of a chain stands in no parentheses
    branch    = "(" bond? chain ")"

This is the syntax that ``partialsmiles`` checks, made finite: branches nest at most ``depth`` deep, and ring closures are the
digits 1 to ``rings``. Each digit occurs in pairs, opened and closed before a dot or the end, which takes up to 2^rings copies
of the grammar's states. A potential checks what is left: valences, aromatic systems, and closures that bond an atom to itself
or to a neighbour again.
"""

from __future__ import annotations

from functools import lru_cache

from tractile.constraints import Constraint
from tractile.constraints.grammar.constraint import grammar
from tractile.constraints.regex.constraint import regex
from tractile.errors import UnsupportedConstraint

ELEMENTS = (
    "H He Li Be B C N O F Ne Na Mg Al Si P S Cl Ar K Ca Sc Ti V Cr Mn Fe Co Ni Cu Zn Ga Ge As Se Br Kr Rb Sr Y Zr Nb Mo "
    "Tc Ru Rh Pd Ag Cd In Sn Sb Te I Xe Cs Ba La Ce Pr Nd Pm Sm Eu Gd Tb Dy Ho Er Tm Yb Lu Hf Ta W Re Os Ir Pt Au Hg Tl "
    "Pb Bi Po At Rn Fr Ra Ac Th Pa U Np Pu Am Cm Bk Cf Es Fm Md No Lr b c n o p s se te"
)
RULES = r"""
root ::= chain ("." chain)*
chain ::= (atom closure* branch* bond?)* atom closure*
branch ::= "(" bond? chain ")"
bond ::= [-=#$/\\]
atom ::= "B" | "C" | "N" | "O" | "P" | "S" | "F" | "I" | "Cl" | "Br" | [bcnops]
"""
BRACKETS = r"""
isotope ::= [1-9] [0-9]? [0-9]?
chiral ::= "@" "@"?
hydrogens ::= "H" [0-9]?
charge ::= "+" [+1-9]? | "-" [-1-9]?
"""


@lru_cache(maxsize=8)
def smiles(depth: int = 4, rings: int = 5, brackets: bool = True) -> Constraint:
    """Return the constraint of molecules in SMILES, branches at most ``depth`` deep, ring closures 1 to ``rings``.

    Without ``brackets`` atoms in brackets are excluded (charges, isotopes, stereocentres), which takes a fifth of the states.
    Raises ``UnsupportedConstraint`` for a negative depth and for ``rings`` that are not from 0 to 9.
    """
    if depth < 0:
        raise UnsupportedConstraint(f"depth={depth} is negative", path="depth")
    if not 0 <= rings <= 9:
        raise UnsupportedConstraint(f"rings={rings}: closures are from 0 to 9", path="rings")
    rules = RULES + (f"closure ::= bond? [1-{rings}]\n" if rings else 'closure ::= ""\n')
    if brackets:
        symbols = " | ".join(f'"{one}"' for one in ELEMENTS.split())
        rules = rules.replace("[bcnops]\n", '[bcnops] | "[" isotope? symbol chiral? hydrogens? charge? "]"\n')
        rules += f"{BRACKETS}symbol ::= {symbols}\n"
    found = grammar(rules, syntax="gbnf", max_depth=depth)
    for digit in range(1, rings + 1):
        other = rf"[^{digit}\[.]|\[[^\]]*\]"
        found &= regex(rf"(?:{other}|\.|{digit}(?:{other})*{digit})*")
    return found
