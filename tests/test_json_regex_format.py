"""The format "regex": nothing is accepted that Python's ``re`` or ECMA-262 refuses."""

import itertools
import json
import random
import re
import shutil
import subprocess

import pytest

import tractile as tt
from tractile.constraints.automata import dfa, utf8
from tractile.constraints.automata.lazy import explore
from tractile.constraints.automata.stack import StackAutomaton
from tractile.constraints.json import regexes
from tractile.constraints.json.regexes import PatternsText, patterns
from tractile.constraints.json.text import read, spelled

GOOD = [
    "", "a", "|", "^abc$", "(a|b)*", "[a-z]+", "[^a-z0-9_-]{2,10}?", r"\d+\.\d*", "(?:(?:(?:(x))))+?", "(?=a)b",
    r"(?<!\ba{3}.)c", r"[\w.-]+@[\w-]+\.[a-z]{2,6}", "a{3}", "a{3,}", "a{10,100}", "a{19,20}", r"\/\x41é\u00e9",
    "([)])", "((((((a))))))", "[a-]", "[-a]", r"[\s\S]*", '"', "a\nb", "[ -~]", "a()", "(?!)",
    r"(a)\1+", r"(?=(a|(b)))\2\1{2}", r"((a)\2)", "()" * 9 + r"\9",
]  # fmt: skip
BAD = [
    "*", "a**", "(", "a)", "[", "[]", "[^]", "a{2,1}", "a{99,98}", "{", "}", "]", "a{", "(?P<n>a)", "(?<n>a)", r"\1",
    r"\p{L}", "(?i)a", "[z-a]", "[a-Z]", r"\q", "a++", "(?<=a*)b", "(?<=a|bc)", "^*", r"\b+", "(?=a)*", "[--a]", "[a--b]",
    "[[a]", "[a&&b]", "\\", r"[\d-z]", "(?#c)", "(?>a)", r"\0", r"(\1)", r"(a)\2", r"(a)\10", r"(?:a)\1", r"()\11",
    r"(a)[\1]", r"(a)(?<=\1)",
]  # fmt: skip


@pytest.fixture(scope="module")
def constraint():
    return tt.constraints.json_schema({"type": "string", "format": "regex"}, on_narrowed="ignore")


def sampled(machine, rng, size):
    """A text of a machine by a random walk that prefers the signs of regular expressions, then its completion."""
    local, out = machine.start(), bytearray()
    while len(out) < size:
        moves = machine.moves(local)
        wanted = rng.choice(b"()[]{}|*+?^$\\-,:=!<d0az19")
        some = [(wanted, to) for low, high, to in moves if low <= wanted <= high]
        if not some or rng.random() < 0.7:
            low, high, to = rng.choice(moves)
            some = [(rng.randint(low, high), to)]
        out.append(some[0][0])
        local = some[0][1]
    return read(bytes(out) + machine.completion(local))


@pytest.fixture(scope="module")
def samples():
    machine, rng = PatternsText(spelled), random.Random(5)
    return [sampled(machine, rng, rng.randrange(40)) for _ in range(4_000)]


@pytest.mark.filterwarnings("error")
def test_python_reads_what_is_accepted(constraint, samples):
    for text in (*GOOD, *samples):
        re.compile(text)
        assert constraint.accepts(json.dumps(text)), text
    assert len(set(samples)) > 3_000
    assert sum("(" in text for text in samples) > 500


@pytest.mark.skipif(
    shutil.which("node") is None, reason="needs node, whose expressions are those of ECMA-262"
)
def test_ecma_262_reads_what_is_accepted(samples, tmp_path):
    (tmp_path / "texts.json").write_text(json.dumps([*GOOD, *samples]))
    code = """
        const texts = JSON.parse(require("fs").readFileSync("texts.json"));
        for (const text of texts) for (const flag of ["", "u"]) new RegExp(text, flag);
    """
    found = subprocess.run(["node", "-e", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr[-500:]


def test_what_one_of_them_refuses_is_not_accepted(constraint):
    for text in BAD:
        assert not constraint.accepts(json.dumps(text)), text
        assert not constraint.finite.accepts(json.dumps(text)), text


def test_groups_nest_to_a_depth(constraint):
    deep = [json.dumps("(" * depth + ")" * depth) for depth in (50, 51)]
    assert [constraint.accepts(text) for text in deep] == [True, False]
    assert not constraint.accepts(json.dumps("(" * 50 + "(?:" + ")" * 51))
    re.compile("(?=" * 50 + ")" * 50)
    assert constraint.finite.accepts(json.dumps("((a)|(b))*"))
    assert not constraint.finite.accepts(json.dumps("(((a)))"))
    assert constraint.narrowed[0].asked == "regex"
    assert any("2 others" in each.why for each in constraint.finite.narrowed)


@pytest.mark.parametrize("levels", [0, 1, 2])
def test_the_stack_reads_what_the_finite_automaton_reads(levels, monkeypatch):
    monkeypatch.setattr(regexes, "DEEPEST", levels)
    monkeypatch.setattr(regexes, "NUMBERED", 0)  # finite automata have no references
    whole = explore(StackAutomaton(PatternsText(spelled)), 20_000)
    finite = patterns(spelled, levels)
    assert dfa.difference(whole, finite).is_empty
    assert dfa.difference(finite, whole).is_empty


def refers(text):
    """Whether a text of the signs ``()\\12`` has balanced groups and refers to closed ones only."""
    groups, closed, number, at = [], set(), 0, 0
    while at < len(text):
        sign, after = text[at], text[at + 1 : at + 2]
        if sign == "\\" and (
            not after or (after in "12" and (int(after) not in closed or text[at + 2 : at + 3] in ("1", "2")))
        ):
            return False
        if sign == "(":
            number += 1
            groups.append(number)
        elif sign == ")":
            if not groups:
                return False
            closed.add(groups.pop())
        at += 2 if sign == "\\" else 1
    return not groups


def test_references_are_to_closed_groups():
    machine, signs, size = PatternsText(utf8.utf8), r"()\12", 6
    accepted, todo = set(), [("", machine.start())]
    for text, local in todo:  # grows during the loop
        if machine.final(local):
            accepted.add(text)
        for low, high, after in machine.moves(local) if len(text) < size else ():
            todo += [(text + sign, after) for sign in signs if low <= ord(sign) <= high]
    texts = ["".join(some) for length in range(size + 1) for some in itertools.product(signs, repeat=length)]
    assert accepted == {text for text in texts if refers(text)}
    assert r"()()\2" in accepted
    for text in accepted:
        re.compile(text)


def test_completions_lead_to_acceptance():
    machine, rng = PatternsText(spelled), random.Random(1)
    for _ in range(300):
        local = machine.start()
        for _ in range(rng.randrange(120)):
            _, _, local = rng.choice(machine.moves(local))
            after = local
            for byte in machine.completion(local):
                after = machine.step(after, byte)
            assert machine.final(after)


def test_beside_other_conditions():
    some = tt.constraints.json_schema(
        {"type": "string", "format": "regex", "minLength": 3, "pattern": r"^\^.*\$$"}, on_narrowed="ignore"
    )
    found = [some.accepts(json.dumps(text)) for text in ("^$", "^a$", "^(a)$", "a", "^(((a)))$")]
    assert found == [False, True, True, False, False]
    listed = tt.constraints.json_schema({"enum": ["(a)", "(a", "*"], "format": "regex"}, on_narrowed="ignore")
    assert [listed.accepts(f'"{text}"') for text in ("(a)", "(a", "*")] == [True, False, False]
    other = tt.constraints.json_schema({"type": "string", "not": {"format": "regex"}}, on_narrowed="ignore")
    assert [other.accepts(json.dumps(text)) for text in ("*", "+a", ")", "a", "(", "")] == [
        True,
        True,
        True,
        False,
        False,
        False,
    ]


def test_masks_finish_within_the_budget():
    vocab = tt.Vocabulary(
        [*(bytes([b]) for b in range(256)), b"((", b"))", b")*", b"(?:", b'(a)"', None], eos_token_id=261
    )
    fa = tt.constraints.json_schema({"type": "string", "format": "regex"}, on_narrowed="ignore").compile(
        vocab
    )
    query, rng = tt.gcd(fa, 14), random.Random(2)
    for _ in range(40):
        row, tokens = query.start(), []
        while not tokens or tokens[-1] != 261:
            allowed = row.mask()[0].nonzero().flatten().tolist()
            signs = [token for token in allowed if token > 255 or token in b"([\\"]
            tokens.append(rng.choice(signs if signs and rng.random() < 0.6 else allowed))
            row.advance(tokens[-1:])
        assert len(tokens) <= 14
        re.compile(json.loads(b"".join(vocab.token_bytes[token] for token in tokens[:-1])))
