"""Tool specifications in every spelling, and calls of them: what is accepted is a valid call, and valid calls are accepted.

A specification is drawn twice at once: as JSON Schema in its plainest words, which ``jsonschema`` judges, and as people spell
it (OpenAI, BFCL or xLAM, types by any name, ``nullable``, ``required: true``, references), which is compiled.
"""

import ast
import contextlib
import json

import jsonschema
from hypothesis import given
from hypothesis import strategies as st

import tractile as tt

PLAIN, SPELLED = 0, 1
NAMES = {
    "string": ("string", "str", "String"), "integer": ("integer", "int", "Integer", "long"),
    "number": ("number", "float", "double"), "boolean": ("boolean", "bool", "Boolean"), "null": ("null", "None"),
    "array": ("array", "list", "ArrayList"), "object": ("object", "dict", "HashMap"),
}  # fmt: skip
PATTERNS = {r"^[ab]+$": ["a", "bab"], r"\d": ["1", "x7"], "^$": [""]}
STRINGS = ["", "a", "b'c", 'q"', "\\", "é\n", "€😀", "x y"]
NUMBERS = [0, 1, -3, 7, 20, 0.5, -2.25, 100.0]
ANY = [None, True, 0, -1.5, "s", [], [1, "a"], {}, {"k": [None]}]
JUNK = [*ANY, "a", "bab", 2, 3.5, 10**20, [True], {"x": 1}, {"x": "a", "y": 2}]
SEPARATORS = {"none": (",", ":"), "space": (", ", ": "), "flexible": (", ", ": ")}


@st.composite
def schemas(draw, depth, defined):
    """(plain, spelled) schemas; ``defined``: names of definitions that may be referred to."""
    kinds = ["string", "integer", "number", "boolean", "null", "enum", "const", "any", "python"]
    kinds += ["ref"] * 2 * bool(defined) + ["array", "object", "map", "union", "types"] * (depth > 0)
    kind = draw(st.sampled_from(kinds))
    plain, spelled = {}, {}

    def also(**keywords):
        plain.update(keywords)
        spelled.update(keywords)

    def typed(name):
        plain["type"] = name
        spelled["type"] = draw(st.sampled_from(NAMES[name]))

    if kind in NAMES:
        typed(kind)
    if kind == "string":
        form = draw(st.sampled_from(["plain", "length", "pattern"]))
        if form == "length":
            low = draw(st.integers(0, 2))
            also(minLength=low, maxLength=low + draw(st.integers(0, 2)))
        elif form == "pattern":
            also(pattern=draw(st.sampled_from([*PATTERNS])))
    elif kind in ("integer", "number") and draw(st.booleans()):
        also(minimum=draw(st.integers(-3, 2)), maximum=draw(st.integers(3, 12)))
    elif kind == "enum":
        also(
            enum=draw(
                st.lists(
                    st.sampled_from(["a", 'b"', 1, -2, 2.5, None, True]),
                    min_size=1,
                    max_size=3,
                    unique_by=repr,
                )
            )
        )
    elif kind == "const":
        also(const=draw(st.sampled_from(["é", 3, False, [1, "x"]])))
    elif kind == "python":
        plain, spelled["type"] = draw(annotations(depth))
    elif kind == "ref":
        also(**{"$ref": f"#/$defs/{draw(st.sampled_from(defined))}"})
    elif kind == "array":
        typed("array")
        inner = draw(schemas(depth - 1, defined))
        form = draw(st.sampled_from(["items", "first", "first only"]))
        if form == "items":
            low = draw(st.integers(0, 2))
            also(minItems=low, maxItems=low + draw(st.integers(0, 1)))
            plain["items"], spelled["items"] = inner
        else:
            other = draw(schemas(0, defined))
            old = draw(st.booleans())
            plain["prefixItems"], spelled["items" if old else "prefixItems"] = (
                [a, b] for a, b in zip(inner, other, strict=True)
            )
            if form == "first only":
                plain["items"] = spelled["additionalItems" if old else "items"] = False
            else:
                also(maxItems=3)
    elif kind == "object":
        typed("object")
        own, said = draw(members(depth - 1, defined))
        plain |= own
        spelled |= said
    elif kind == "map":
        typed("object")
        plain["additionalProperties"], spelled["additionalProperties"] = draw(schemas(depth - 1, defined))
    elif kind == "union":
        parts = [draw(schemas(depth - 1, defined)) for _ in range(2)]
        plain["anyOf"], spelled["anyOf"] = ([part[i] for part in parts] for i in (PLAIN, SPELLED))
    elif kind == "types":
        names = draw(
            st.lists(
                st.sampled_from(["string", "integer", "boolean", "null"]), min_size=1, max_size=2, unique=True
            )
        )
        plain["type"], spelled["type"] = names, [draw(st.sampled_from(NAMES[name])) for name in names]
    spelled |= draw(st.sampled_from([{}, {"description": "d"}, {"title": "t", "default": 1}]))
    if kind != "any" and draw(st.integers(0, 4)) == 0:
        return {"anyOf": [plain, {"type": "null"}]}, spelled | {"nullable": True}
    return plain, spelled


@st.composite
def annotations(draw, depth):
    """(plain schema, a type as Python writes it)."""
    simple = {"int": "integer", "str": "string", "float": "number", "bool": "boolean"}
    forms = ["simple", "literal"] + ["List", "Dict", "Optional", "Union", "|", "Tuple"] * (depth > 0)
    form = draw(st.sampled_from(forms))
    if form == "simple":
        name = draw(st.sampled_from([*simple]))
        return {"type": simple[name]}, name
    if form == "literal":
        values = draw(
            st.lists(
                st.sampled_from(["a", "it's", 1, -2, True, None]), min_size=1, max_size=3, unique_by=repr
            )
        )
        return {"enum": values}, f"Literal[{', '.join(map(repr, values))}]"
    (plain, text), (other, more) = draw(annotations(depth - 1)), draw(annotations(0))
    return {
        "List": ({"type": "array", "items": plain}, f"List[{text}]"),
        "Dict": ({"type": "object", "additionalProperties": plain}, f"Dict[str, {text}]"),
        "Optional": ({"anyOf": [plain, {"type": "null"}]}, f"Optional[{text}]"),
        "Union": ({"anyOf": [plain, other]}, f"typing.Union[{text}, {more}]"),
        "|": ({"anyOf": [plain, other]}, f"{text} | {more}"),
        "Tuple": (
            {"type": "array", "x-tuple": True, "prefixItems": [plain, other], "minItems": 2, "maxItems": 2},
            f"Tuple[{text}, {more}]",
        ),
    }[form]


@st.composite
def members(draw, depth, defined):
    """(plain, spelled) properties of an object, and which are required; by their own word or the object's."""
    plain = {"properties": {}, "required": [], "additionalProperties": False}
    spelled, listed = {}, []
    for name in draw(st.lists(st.sampled_from(["x", "y", "n_1"]), min_size=1, max_size=2, unique=True)):
        plain["properties"][name], spelled[name] = draw(schemas(depth, defined))
        flags = ["own", "both", "not"] * ("required" not in spelled[name])  # the word is taken by its members
        said = draw(st.sampled_from(["no", "list", *flags]))
        if said in ("list", "own", "both"):
            plain["required"].append(name)
        if said in ("own", "both", "not"):
            spelled[name] = spelled[name] | {"required": said != "not"}
        listed += [name] * (said in ("list", "both"))
    spelled = {"properties": spelled, "required": listed}
    if draw(st.booleans()):
        spelled["additionalProperties"] = False
    return plain, spelled


@st.composite
def tools(draw, name):
    """(name, plain schema of the arguments, the tool as it is spelled)."""
    form = draw(st.sampled_from(["openai", "bfcl", "xlam"]))
    plain = {"$defs": {}}
    spelled = {"type": draw(st.sampled_from(NAMES["object"]))}
    if form == "xlam":
        arguments, required = {}, []
        own = {"type": "object", "properties": arguments, "required": required, "additionalProperties": False}
        spelled = {}
        for argument in draw(st.lists(st.sampled_from(["x", "y", "z"]), max_size=2, unique=True)):
            arguments[argument], text = draw(annotations(1))
            how = draw(st.sampled_from(["required", "optional", "default", "flag"]))
            spelled[argument] = {"type": text + ", optional" * (how == "optional"), "description": "d"}
            spelled[argument] |= (
                {"default": 1} if how == "default" else {"required": False} if how == "flag" else {}
            )
            required += [argument] * (how == "required")
        return name, own, {"name": name, "parameters": spelled}
    if draw(st.booleans()):
        plain["$defs"]["T"], spelled["$defs"] = (lambda both: (both[PLAIN], {"T": both[SPELLED]}))(
            draw(schemas(1, []))
        )
    own, said = draw(members(2, [*plain["$defs"]]))
    tool = {"name": name, "description": "d", "parameters": spelled | said}
    plain |= {"type": "object", **own}
    return name, plain, {"type": "function", "function": tool} if form == "openai" else tool


# ---------------------------------------------------------------- the oracle


def is_tuple(validator, wanted, instance, schema):
    if isinstance(instance, tuple) is not wanted and isinstance(instance, list | tuple):
        yield jsonschema.ValidationError("a list is not a tuple")


DRAFT = jsonschema.Draft202012Validator
CHECKER = DRAFT.TYPE_CHECKER.redefine("array", lambda _, value: isinstance(value, list | tuple))
PYTHON = jsonschema.validators.extend(DRAFT, {"x-tuple": is_tuple}, type_checker=CHECKER)


def with_lists(schema):
    """The schema for Python, where a list is no tuple."""
    if isinstance(schema, list):
        return [with_lists(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    mark = {"x-tuple": False} if schema.get("type") == "array" and "x-tuple" not in schema else {}
    return {
        key: value if key in ("enum", "const") else with_lists(value) for key, value in schema.items()
    } | mark


def unique(pairs):
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


def constant(name):
    raise ValueError(name)


def calls_in_json(text, parallel):
    """(name, arguments) of each call, None where the text is none."""
    try:
        value = json.loads(text, object_pairs_hook=unique, parse_constant=constant)
        value = value if parallel else [value]
        assert isinstance(value, list)
        assert all([*call] == ["name", "arguments"] for call in value)
        return [(call["name"], call["arguments"]) for call in value]
    except (ValueError, AssertionError, TypeError):
        return None


def calls_in_python(text, parallel):
    try:
        node = ast.parse(text, mode="eval").body
        nodes = node.elts if parallel and isinstance(node, ast.List) else [node]
        assert isinstance(node, ast.List) is parallel
        found = []
        for call in nodes:
            assert isinstance(call, ast.Call)
            assert not call.args
            pairs = [(keyword.arg, ast.literal_eval(keyword.value)) for keyword in call.keywords]
            found.append((ast.unparse(call.func), unique(pairs)))
        return found
    except (ValueError, AssertionError, SyntaxError, TypeError, MemoryError):
        return None


def is_valid(text, known, syntax, parallel):
    calls = (calls_in_json if syntax == "json" else calls_in_python)(text, parallel)
    return bool(calls) and all(
        isinstance(name, str) and name in known and known[name].is_valid(arguments)
        for name, arguments in calls
    )


# ---------------------------------------------------------------- values and texts


@st.composite
def values(draw, schema, root):
    """A value that the plain schema allows."""
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        return draw(values(draw(st.sampled_from(schema["anyOf"])), root))
    if "enum" in schema:
        return draw(st.sampled_from(schema["enum"]))
    if "const" in schema:
        return schema["const"]
    kind = schema.get("type")
    kind = draw(st.sampled_from(kind)) if isinstance(kind, list) else kind
    if kind is None:
        return draw(st.sampled_from(ANY))
    if kind == "string":
        low, high = schema.get("minLength", 0), schema.get("maxLength", 9)
        fits = PATTERNS[schema["pattern"]] if "pattern" in schema else STRINGS
        text = draw(st.sampled_from(fits))
        return text if "pattern" in schema else (text + "abc"[: max(0, low - len(text))])[:high]
    if kind in ("integer", "number"):
        low, high = schema.get("minimum", -1000), schema.get("maximum", 1000)
        fits = [
            n for n in (low, high, *NUMBERS) if low <= n <= high and (kind == "number" or isinstance(n, int))
        ]
        return draw(st.sampled_from(fits))
    if kind == "boolean":
        return draw(st.booleans())
    if kind == "null":
        return None
    if kind == "array":
        first, rest = schema.get("prefixItems", []), schema.get("items", {})
        low, high = schema.get("minItems", 0), schema.get("maxItems", len(first) + 1)
        size = draw(st.integers(low, max(low, min(high, len(first)) if rest is False else high)))
        items = [draw(values(first[i] if i < len(first) else rest, root)) for i in range(size)]
        return tuple(items) if "x-tuple" in schema else items
    if "properties" not in schema:
        keys = draw(st.lists(st.sampled_from(["k", "é", "a b"]), max_size=2, unique=True))
        return {key: draw(values(schema.get("additionalProperties", {}), root)) for key in keys}
    return {
        name: draw(values(inner, root))
        for name, inner in schema["properties"].items()
        if name in schema["required"] or draw(st.booleans())
    }


def in_json(value, separators):
    return json.dumps(value, ensure_ascii=False, separators=separators)


def in_python(value, separators):
    comma, colon = separators
    if isinstance(value, list | tuple):
        inside = comma.join(in_python(item, separators) for item in value)
        if isinstance(value, list):
            return f"[{inside}]"
        return f"({inside}{',' if len(value) == 1 else ''})"
    if isinstance(value, dict):
        return (
            "{"
            + comma.join(f"{key!r}{colon}{in_python(inner, separators)}" for key, inner in value.items())
            + "}"
        )
    return repr(value)


def written(calls, syntax, whitespace, parallel):
    """The text of calls."""
    comma, colon = SEPARATORS[whitespace]
    if syntax == "json":
        whole = [{"name": name, "arguments": arguments} for name, arguments in calls]
        return in_json(whole if parallel else whole[0], (comma, colon))
    texts = [
        f"{name}({comma.join(f'{key}={in_python(value, (comma, colon))}' for key, value in arguments.items())})"
        for name, arguments in calls
    ]
    return f"[{comma.join(texts)}]" if parallel else texts[0]


@st.composite
def changed(draw, calls):
    """Calls with something else in one of them: an argument left out or put in, another name, another value within."""
    name, arguments = calls[draw(st.integers(0, len(calls) - 1))]
    arguments = dict(arguments)
    how = draw(st.sampled_from(["drop", "add", "name", "value", "turn", "within"]))
    if how == "name":
        return [(draw(st.sampled_from(["f", "g", "a.b", "ff", ""])), arguments)]
    if how == "add" or not arguments:
        return [(name, arguments | {draw(st.sampled_from(["x", "y", "q"])): draw(st.sampled_from(JUNK))})]
    key = draw(st.sampled_from([*arguments]))
    if how == "drop":
        del arguments[key]
    elif how == "turn":
        arguments = dict(reversed(arguments.items()))
    elif how == "within" and arguments[key] and isinstance(arguments[key], list | dict):
        inner = arguments[key]
        place = draw(st.sampled_from([*(inner if isinstance(inner, dict) else range(len(inner)))]))
        arguments[key] = type(inner)(inner)
        arguments[key][place] = draw(st.sampled_from(JUNK))
    else:
        arguments[key] = draw(st.sampled_from(JUNK))
    return [(name, arguments)]


@st.composite
def edited(draw, text):
    """The text with a character more, less or in place of another."""
    i = draw(st.integers(0, max(0, len(text) - 1)))
    c = draw(st.sampled_from([*"{}[](),:=\"'\\ .-0123eax", "\n", ""]))
    return text[:i] + c + text[i + draw(st.integers(0, 1)) :]


@st.composite
def specifications(draw):
    drawn = [draw(tools(name)) for name in draw(st.sampled_from([["f"], ["f", "a.b"]]))]
    syntax, whitespace = draw(st.sampled_from(["json", "python"])), draw(st.sampled_from([*SEPARATORS]))
    return drawn, syntax, whitespace, draw(st.booleans())


@given(st.data())
def test_what_is_accepted_is_a_valid_call_and_valid_calls_are_accepted(data):
    drawn, syntax, whitespace, parallel = data.draw(specifications())
    spelled = [tool for _, _, tool in drawn]
    constraint = tt.constraints.function_calls(
        spelled, syntax=syntax, whitespace=whitespace, parallel=parallel
    )
    adapt = with_lists if syntax == "python" else lambda schema: schema
    known = {name: (PYTHON if syntax == "python" else DRAFT)(adapt(plain)) for name, plain, _ in drawn}
    for _ in range(2):
        chosen = data.draw(st.lists(st.sampled_from(drawn), min_size=1, max_size=2 if parallel else 1))
        calls = [(name, data.draw(values(plain, plain))) for name, plain, _ in chosen]
        text = written(calls, syntax, whitespace, parallel)
        assert is_valid(text, known, syntax, parallel), text
        assert constraint.accepts(text), text
        other = written(data.draw(changed(calls)), syntax, whitespace, parallel)
        for wrong in (other, data.draw(edited(text)), data.draw(edited(other))):
            if constraint.accepts(wrong):
                assert is_valid(wrong, known, syntax, parallel), wrong


@st.composite
def broken(draw, tool):
    """A tool with something else in place of one of its parts."""
    if not isinstance(tool, dict | list) or not tool or draw(st.integers(0, 3)) == 0:
        return draw(
            st.sampled_from(
                [*JUNK, "List[", "tuple", "Literal[b'']", {"$ref": "#"}, {"type": "array", "items": []}]
            )
        )
    places = [*(tool if isinstance(tool, dict) else range(len(tool)))]
    place = draw(st.sampled_from(places))
    copy = type(tool)(tool)
    copy[place] = draw(broken(tool[place]))
    return copy


@given(st.data())
def test_errors_are_typed(data):
    """What is no specification, or one that is not supported, is said so."""
    drawn, syntax, whitespace, parallel = data.draw(specifications())
    spelled = data.draw(broken([tool for _, _, tool in drawn]))
    with contextlib.suppress(tt.TractileError):
        tt.constraints.function_calls(
            spelled, syntax=syntax, whitespace=whitespace, parallel=parallel
        ).accepts("f()")
