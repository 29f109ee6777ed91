"""Random constraints of at most 10,000 texts against enumeration: emptiness, masks, the fewest tokens, budgets of parts.

They become nodes that intersect (``Within``), compare (``Apart``), count (``Count``) and take members in any order (``Bag``). The
oracle lists the texts, and says of each beginning p that n tokens have written:

    fewest(p, n) = min { 1 if p is a text and n tokens are allowed;  1 + fewest(p t, n + 1) for tokens t }
    mask(p, n, left) = { t : fewest(p t, n + 1) ≤ left },  and the end token if p is such a text
"""

import itertools
import json
import re
from random import Random

import pytest

import tractile as tt
from tractile.constraints import json_schema, regex

LETTERS = '[]{}",:ab1'
MOST = 10_000


class Language:
    """The texts that a constraint and a vocabulary leave, in ``low`` to ``high`` tokens."""

    def __init__(self, texts, words, low=0, high=None):
        self.texts, self.words, self.low, self.high = texts, words, low, high
        self.prefixes = {text[:end] for text in texts for end in range(len(text) + 1)}
        self.known = {}

    def ends(self, prefix, written):
        return prefix in self.texts and self.low <= written and (self.high is None or written <= self.high)

    def fewest(self, prefix, written):
        """The fewest tokens to the end, the end token included; infinite if there is none."""
        if prefix not in self.prefixes or (self.high is not None and written > self.high):
            return float("inf")
        key = prefix, min(written, self.low if self.high is None else written)
        if key not in self.known:
            after = (self.fewest(prefix + word, written + 1) for word in self.words)
            self.known[key] = 1 if self.ends(prefix, written) else 1 + min(after, default=float("inf"))
        return self.known[key]

    def mask(self, prefix, written, left=float("inf")):
        """The numbers of the tokens that may follow; 0 is the end token."""
        found = {0} if self.ends(prefix, written) and left >= 0 else set()
        for token, word in enumerate(self.words, 1):
            needed = self.fewest(prefix + word, written + 1)
            if needed <= left and needed < float("inf"):
                found.add(token)
        return found


def strings(rng):
    """Schemas of strings of a and b, and the strings."""
    low = rng.choice((0, 0, 1, 2))
    high = low + rng.randint(0, 2)
    every = ["".join(word) for size in range(5) for word in itertools.product("ab", repeat=size)]
    match rng.randrange(3):
        case 0:
            return {"type": "string", "minLength": low, "maxLength": high, "pattern": "^[ab]*$"}, [
                word for word in every if low <= len(word) <= high
            ]
        case 1:
            words = rng.sample(every[:15], rng.randint(1, 4))
            return {"enum": words}, words
    pattern = rng.choice(("a{1,3}", "(a|bb){1,2}", "[ab]a?", "a?b?a?", "(?:ab|a)(?:b|)"))
    return {"type": "string", "pattern": f"^({pattern})$"}, [w for w in every if re.fullmatch(pattern, w)]


def items(rng):
    """Schemas of items, and the texts of these; different texts are different values."""
    schema, words = strings(rng)
    texts = [f'"{word}"' for word in words]
    match rng.randrange(4):
        case 0:
            return {"anyOf": [schema, {"const": 1}]}, [*texts, "1"]
        case 1:
            name = rng.choice("ab")
            found = {"type": "object", "properties": {name: schema}, "additionalProperties": False}
            return found, ["{}", *(f'{{"{name}":{text}}}' for text in texts)]
    return schema, texts


def arrays(rng):
    schema, texts = items(rng)
    low, unique = rng.choice((0, 0, 1, 2, 3)), rng.random() < 0.7
    high = max(low, rng.randint(1, 3))
    found = {"type": "array", "items": schema, "minItems": low, "maxItems": high, "uniqueItems": unique}
    some = rng.choice(texts) if rng.random() < 0.4 else None
    if some is not None:
        found["contains"] = {"const": json.loads(some)}
    language = set()
    for size in range(low, high + 1):
        if len(texts) ** size > 10 * MOST:
            return None
        for row in itertools.product(texts, repeat=size):
            if (not unique or len(set(row)) == size) and (some is None or some in row):
                language.add("[" + ",".join(row) + "]")
    return found, language


def objects(rng):
    schema, words = strings(rng)
    names = rng.sample(["a", "b", "ab", "ba"], rng.randint(1, 3))
    declared, low = names[: rng.randint(0, len(names))], rng.choice((0, 1, 2, 3))
    high = max(low, rng.randint(1, 3))
    required = [name for name in declared if rng.random() < 0.4]
    found = {
        "type": "object", "properties": {name: {"const": 1} for name in declared}, "required": required,
        "additionalProperties": schema, "propertyNames": {"enum": names}, "minProperties": low, "maxProperties": high,
    }  # fmt: skip
    values = {name: ["1"] if name in declared else [f'"{word}"' for word in words] for name in names}
    language = set()
    for size in range(low, min(high, len(names)) + 1):
        for order in itertools.permutations(names, size):
            if set(required) <= set(order):
                for row in itertools.product(*(values[name] for name in order)):
                    language.add("{" + ",".join(f'"{n}":{v}' for n, v in zip(order, row, strict=True)) + "}")
    return found, language


PATTERNS = [".*a.*", "[^b]*", ".{2,9}", ".*(ab|ba).*", "(?:..)*", ".*b.{1,3}", '.*",".*']


def constraints(rng):
    """Return a random constraint and its texts over :data:`LETTERS`; None if these are too many, or some are lacking."""
    made = rng.choice((arrays, arrays, objects))(rng)
    if made is None or len(made[1]) > MOST:
        return None
    schema, texts = made
    found = json_schema(schema, whitespace="none", on_narrowed="ignore")
    within = None
    for _ in range(rng.choice((0, 1, 1, 2))):
        pattern, without = rng.choice(PATTERNS), rng.random() < 0.3
        some = ~regex(pattern) if without else regex(pattern)
        within = some if within is None else within & some
        texts = {text for text in texts if (re.fullmatch(pattern, text) is None) == without}
    found = found if within is None else found & within
    lacking = any(cut.keyword != "escapes" for cut in found.narrowed)  # of which the letters have none
    return None if lacking else (found, {text.encode() for text in texts})


def words_of(rng):
    longer = ['","', '"a', 'a"', '["', '"]', '{"', '":', '":"', '"}', "ab", '1,"', '"},{"', "ba", ",1"]
    single = [letter for letter in LETTERS if rng.random() < 0.97]
    return [word.encode() for word in (*single, *rng.sample(longer, rng.randint(0, 6)))]


def check(rng):
    """Compare one constraint with its texts; return how many masks were compared."""
    made = constraints(rng)
    if made is None:
        return 0
    constraint, texts = made
    if texts:
        assert not constraint.is_empty()
        assert all(constraint.accepts(text) for text in rng.sample(sorted(texts), min(10, len(texts))))
    words, low, high = words_of(rng), 0, None
    if rng.random() < 0.3:
        low = rng.randint(0, 8)
        high = low + rng.randint(0, 8)
        constraint = constraint.tokens(at_most=high, at_least=low)
    language = Language(texts, words, low, high)
    least = language.fewest(b"", 0)
    try:
        fa = constraint.compile(tt.Vocabulary([None, *words], 0))
    except tt.errors.EmptyLanguage:
        assert least == float("inf")
        return 1
    compared = 0
    for walk in range(6):
        known = fa.fewest_after([])
        assert known == least if fa.distances_are_exact else least <= known
        more = rng.choice((0, 1, 2, 5))
        query = tt.lcd(fa).start(1) if walk < 2 else tt.gcd(fa, known + more).start(1)
        prefix, written, left = b"", [], float("inf") if walk < 2 else known + more
        while True:
            found = set(query.mask()[0].nonzero().flatten().tolist())
            expected = language.mask(prefix, len(written), left - 1)
            assert found == expected if query.exact else found <= expected, (prefix, left)
            assert found, prefix
            compared += 1
            token = rng.choice(sorted(found))
            if token == 0:
                break
            written.append(token)
            prefix, left = prefix + words[token - 1], left - 1
            known_here, truth = fa.fewest_after(written), language.fewest(prefix, len(written))
            assert known_here == truth if fa.distances_are_exact else truth <= known_here, prefix
            query.advance([token])
    return compared


@pytest.mark.long
@pytest.mark.parametrize("block", range(6))
def test_what_is_answered_is_what_enumeration_says(block):
    compared = refused = 0
    for seed in range(100 * block, 100 * (block + 1)):
        try:
            compared += check(Random(seed))
        except (
            tt.errors.TooManyStates,
            tt.errors.UnsupportedConstraint,
        ):  # items that differ, beside budgets of parts
            refused += 1
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
    assert compared > 1000
    assert refused < 30
