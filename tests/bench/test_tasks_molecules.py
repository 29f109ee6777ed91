"""Molecules: lists of SMILES, the grammar against partialsmiles, the potential by enumeration, scores by RDKit."""

import gzip
import itertools
import math
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import tractile as tt
from tractile.errors import TractileError, UnsupportedConstraint
from tractile_bench.base import Example
from tractile_bench.molecules.smiles_grammar import smiles
from tractile_bench.molecules.task import Molecules, every_atom, finished, molecule, parser, unfinished

partialsmiles = pytest.importorskip("partialsmiles")
pytest.importorskip("rdkit")

LIST = ["CCO", "c1ccccc1", "CC(=O)N", "C1CC1", "OC=O", "CCN", "C#N", "FC(F)F"]


@pytest.mark.parametrize("name", ["GDB17_sample.txt", "list.smi", "list.smi.gz"])
def test_prompts_are_drawn_from_a_list(tmp_path, name):
    text = "\n".join(f"{one}\tname {i}" for i, one in enumerate(LIST)) + "\n\n"
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    task = Molecules(tmp_path if name.startswith("GDB") else path, count=5, shown=4)
    found = list(task.examples())
    assert found == list(task.examples())
    assert len({one.id for one in found}) == len({one.prompt for one in found}) == 5
    for one in found:
        *shown, reference = one.facts["shown"], one.reference
        assert len({*shown[0], reference}) == 5
        assert {*shown[0], reference} <= set(LIST)
        assert one.prompt == "Molecules:\n" + "\n".join(shown[0]) + "\n"
        assert one.facts["brackets"] is False
    for other in (Molecules(path, count=5, shown=4, seed=1), Molecules(path, count=4, shown=5)):
        assert not {one.prompt for one in other.examples()} & {one.prompt for one in found}


def test_a_folder_has_lists_for_test_and_for_train(tmp_path):
    (tmp_path / "GDB17_sample.txt").write_text("CCO\nCCN\nCCF\n")
    (tmp_path / "qm9.smi").write_text("[NH4+]\nC\nN\n")
    task = Molecules(tmp_path, count=1, shown=2)
    assert {*next(task.examples()).facts["shown"]} < {"CCO", "CCN", "CCF"}
    train = next(task.examples("train"))
    assert {*train.facts["shown"]} < {"[NH4+]", "C", "N"}
    assert task.constraint(train).accepts("[NH4+]")
    assert not task.constraint(next(task.examples())).accepts("[NH4+]")


def test_bounds_that_make_no_sense():
    for wrong in ({"depth": -1}, {"rings": 10}, {"rings": -1}):
        with pytest.raises(UnsupportedConstraint):
            smiles(**wrong)


def test_lines_that_are_no_molecules_are_told_of(tmp_path):
    path = tmp_path / "list.smi"
    path.write_text("canonical_smiles\tname\n" + "\n".join(LIST) + "\nwater!\nCCO,ethanol\n\n")
    task = Molecules(path, count=20, shown=4)
    assert {one for example in task.examples() for one in example.facts["shown"]} == {*LIST}
    assert task.dropped == {"lines that are not SMILES": ["line 1", "line 10", "line 11"]}


PIECES = ["C", "Cl", "c", "(", ")", "1", "2", "=", ".", "[", "]", "H", "+", "@", "N", "3", "-"]
RINGS = ("bond opening and closing", "second bond", "Inconsistent bond")
"""What partialsmiles calls syntax, too, and an automaton does not see: which atoms a ring closure joins."""


def reads(text):
    """Whether partialsmiles takes the syntax; None if it stops at one of `RINGS`."""
    try:
        partialsmiles.ParseSmiles(text)
    except (partialsmiles.ValenceError, partialsmiles.KekulizationFailure):
        return True
    except partialsmiles.SMILESSyntaxError as error:
        return None if any(one in str(error) for one in RINGS) else False
    except IndexError:
        return False
    return True


def test_the_grammar_is_the_syntax_of_partialsmiles_on_all_short_texts():
    accepts, right = smiles(depth=2, rings=3).accepts, 0
    for length in range(1, 5):
        for pieces in itertools.product(PIECES, repeat=length):
            text = "".join(pieces)
            known = reads(text)
            assert known is None or accepts(text) == known, text
            right += bool(known)
    assert right == 852


def test_bounds_of_the_grammar():
    for depth in range(4):
        nested = ["C(" * n + "C" + ")C" * n for n in range(6)]
        assert [smiles(depth=depth).accepts(one) for one in nested] == [n <= depth for n in range(6)]
    assert [smiles(rings=2).accepts(f"C{digit}CC{digit}") for digit in range(1, 5)] == [
        True,
        True,
        False,
        False,
    ]
    assert not smiles(rings=0).accepts("C1CC1")
    assert smiles(rings=0).accepts("CC(C)C")
    assert not smiles(brackets=False).accepts("[nH]1cccc1")
    assert smiles().accepts("[nH]1cccc1")


def example(*shown):
    return Example("0", "", "C", {"shown": list(shown), "brackets": True})


def test_a_boundary_is_not_within_brackets():
    assert [every_atom(one) for one in ("", "C", "C[", "C[N", "C[NH2]", "C[NH2]C[O")] == [0, 1, 1, 1, 6, 7]


def test_what_can_become_no_molecule():
    for text in ("C(C)(C)(C)(C)(C", "O=O=", "C1C1", "C11", "F(C", "c1cc1C", "N(=O)(=O)C"):
        assert not unfinished(text), text
    for text in ("C(C", "C1CC", "c1cc", "C("):
        assert unfinished(text)
        assert not finished(text)


def test_particles_live_that_are_molecules():
    vocab = tt.Vocabulary([b"C", b"N", b"(", b")", b"=", b"1", b"F", b"O=", b"c1cccc1", None], 9)
    lm = tt.lm.TableLM({(): torch.full((10,), 0.1, dtype=torch.float64).log()}, 9, vocab)
    fa, potential = smiles().compile(vocab), Molecules("none").potential(example())
    post = tt.smc(lm, [], fa, "gcd", particles=300, max_new_tokens=7, potential=potential, ess_threshold=0.0)
    alive = {particle.text for particle in post.particles if particle.log_weight > -math.inf}
    assert alive == {text for text in post.texts if finished(text)} < {*post.texts}
    assert any("(" in text for text in alive)


def test_scores():
    task, one = Molecules("none"), example("CCO", "C")
    assert task.scores(one, "OCC") == pytest.approx({"qed": 0.4068, "valid": 1, "novel": 0}, abs=1e-3)
    assert task.scores(one, "CC(=O)Oc1ccccc1C(=O)O")["qed"] == pytest.approx(0.5501, abs=1e-3)  # aspirin
    assert task.scores(one, "CCN")["novel"] == 1
    for wrong in ("", "C1CC", "C(C)(C)(C)(C)C", "CC ethane", "Molecule", "c1cccc1", "C\n"):
        assert task.scores(one, wrong) == {"qed": 0, "valid": 0, "novel": 0}
    assert task.meaning(one, "OCC") == task.meaning(one, "C(O)C") == "CCO"
    assert task.meaning(one, "C1C") == "C1C"


@given(st.text(alphabet="CNOcn()=#[]+-@H1234.%/\\ é*", max_size=12))
def test_scores_of_any_text(text):
    found = Molecules("none").scores(example("CCO"), text)
    assert all(0 <= value <= 1 for value in found.values())
    assert found["valid"] == (molecule(text) is not None)


def test_answers_together():
    task, one = Molecules("none"), example()
    answers = [
        (one, {"CCO": 0.4, "C": 0.6}), (one, {"OCC": 1.0}), (one, {"CCO": 1.0}), (one, {"C1": 1.0}), (one, {}),
    ]  # fmt: skip
    found = task.aggregate(answers)
    assert found["distinct"] == pytest.approx(2 / 3)
    assert found["diversity"] == pytest.approx(
        2 / 3
    )  # methane shares nothing with ethanol, two of three pairs
    assert task.aggregate(answers[:1]) == {}


def test_missing_packages_are_named(monkeypatch):
    for name, use in (
        ("partialsmiles", lambda: Molecules("none").potential(example())),
        ("partialsmiles", lambda: finished("C")),
        ("partialsmiles", lambda: next(Molecules("none").examples())),
        ("rdkit", lambda: next(Molecules("none").examples())),
        ("rdkit", lambda: Molecules("none").scores(example(), "CCCCCCCCC")),
    ):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, name, None)
            parser.cache_clear()
            molecule.cache_clear()
            with pytest.raises(TractileError, match=f"pip install {name}"):
                use()
