"""The definition against enumeration, on random programs with all kinds of nodes."""

import itertools
from random import Random

import pytest
from definition import NEVER, Definition, TooLarge
from random_programs import ALPHABET, INNER, Enumeration, random_program, random_tokens, tokenizations

from tractile.constraints.program import nodes
from tractile.constraints.program.prune import without_budgets
from tractile.constraints.program.tables import of_text
from tractile.constraints.vocabulary.vocabulary import Vocabulary

MOST = 5  # bytes of the texts that are enumerated
KINDS = [kind for kind in INNER if kind not in ("apart", "item")]
CONFIGURATIONS = 60  # that are looked at
LETTERS = Vocabulary([None, *(bytes([byte]) for byte in ALPHABET)], 0)


def check_bytes(node):
    """Texts, what may follow each prefix, and the fewest bytes to the end, against enumeration."""
    node = without_budgets(node)
    texts = {text.data for text in Enumeration(MOST).texts(node)}
    fewest: dict[bytes, int] = {}
    for text in texts:
        for end in range(len(text) + 1):
            fewest[text[:end]] = min(fewest.get(text[:end], NEVER), len(text) - end)
    definition = Definition(node, LETTERS)
    todo = [(b"", definition.start)]
    for prefix, at in itertools.islice(grows(todo), CONFIGURATIONS):
        assert definition.accepting(at) == (prefix in texts)
        found = definition.fewest(at) - 1
        if prefix in fewest:
            assert found == fewest[prefix], prefix
        else:
            assert found >= min(MOST - len(prefix) + 1, NEVER - 1), prefix
        assert any(definition.fewest(frozenset([stack])) < NEVER for stack in at) == (found < NEVER - 1)
        if len(prefix) < MOST:
            todo += [(prefix + bytes([byte]), definition.byte(at, byte)) for byte in ALPHABET]


def grows(todo):
    """Yield the entries of a list that grows meanwhile."""
    for index in itertools.count():
        if index == len(todo):
            return
        yield todo[index]


def check_tokens(node, words, most=4):
    """Masks and distances in tokens against all ways to write all short texts."""
    vocab = Vocabulary([*words, None], len(words))
    fewest: dict[tuple[bytes, ...], int] = {}
    for text in Enumeration(most).texts(node):
        for written in tokenizations(text.data, words):
            if text.fits(written):
                for end in range(len(written) + 1):
                    fewest[written[:end]] = min(fewest.get(written[:end], NEVER), len(written) - end)
    definition = Definition(node, vocab)
    todo = [((), definition.start)]
    for prefix, at in itertools.islice(grows(todo), CONFIGURATIONS):
        read, here, found = sum(map(len, prefix)), fewest.get(prefix, NEVER - 1), definition.fewest(at) - 1
        assert found <= here, prefix
        after = [definition.step(at, token) for token in range(len(words))]
        left = [definition.fewest(each) for each in after]
        end = {len(words)} if definition.accepting(at) else set()
        assert found == (0 if end else min(NEVER - 1, *left)), prefix
        for most_left in (*range(5), NEVER - 1):
            mask = definition.mask(at, most_left)
            assert mask == {t for t in range(len(words)) if left[t] <= most_left} | end
            if read + most_left * max(map(len, words)) <= most:  # all texts are enumerated
                assert mask - end == {
                    t for t, w in enumerate(words) if fewest.get((*prefix, w), NEVER) < most_left
                }
        if read < most:
            todo += [((*prefix, word), each) for word, each in zip(words, after, strict=True)]


def programs_with_items():
    """Yield small programs with items that must differ: short ones, ambiguous ones, none left, nested, within a table."""
    a, b, ab, comma = (nodes.text(word) for word in (b"a", b"b", b"ab", b"c"))
    some = nodes.item(nodes.alt(a, b, ab))
    yield nodes.apart(nodes.repeat(some, 2, 3, comma))
    yield nodes.apart(nodes.repeat(some, 4, None, comma))  # there are only three
    yield nodes.apart(nodes.repeat(some, 1, None))
    yield nodes.apart(nodes.repeat(nodes.item(nodes.repeat(a, 0, 3)), 2, 3, comma))
    pair = nodes.item(nodes.apart(nodes.repeat(some, 1, 2)))
    yield nodes.apart(nodes.repeat(pair, 1, 2, comma))
    yield nodes.within(nodes.apart(nodes.repeat(some, 2, 3, comma)), of_text(b"bcab"))
    yield nodes.seq(nodes.apart(nodes.repeat(nodes.tokens(some, 1, 1), 2, 2, comma)), a)


def test_equal_nodes_are_one():
    assert nodes.seq() is nodes.EMPTY
    assert nodes.alt() is nodes.NOTHING
    assert nodes.alt(nodes.NOTHING, nodes.text(b"a")) is nodes.text(b"a")
    assert nodes.repeat(nodes.text(b"a"), 3, 2) is nodes.NOTHING
    assert nodes.tokens(nodes.text(b"a"), 3, 2) is nodes.NOTHING


def test_items_that_differ():
    for node in programs_with_items():
        check_bytes(node)
        check_tokens(node, [b"a", b"b", b"c", b"ac", b"bca"])


@pytest.mark.parametrize("check", [check_bytes, check_tokens])
@pytest.mark.parametrize("block", range(4))
def test_random_programs(check, block):
    checked = 0
    for seed in range(40 * block, 40 * block + 40):
        rng = Random(seed)
        node = random_program(rng, depth=rng.choice((2, 3)), kinds=KINDS)
        try:
            check(node, *([random_tokens(rng)] if check is check_tokens else []))
        except TooLarge:
            continue
        checked += 1
    assert checked > 35


def test_items_are_compared_as_json():
    number = nodes.lex(of_text(b"1")), nodes.lex(of_text(b"1.0")), nodes.lex(of_text(b"2"))
    for json in (False, True):
        pair = nodes.apart(nodes.repeat(nodes.item(nodes.alt(*number), json=json), 2, 2, nodes.text(b",")))
        definition = Definition(pair, Vocabulary([None, b"1", b".", b"0", b",", b"2"], 0))
        assert definition.accepts(b"1,2")
        assert definition.accepts(b"1,1.0") != json
        assert not definition.accepts(b"1,1")
