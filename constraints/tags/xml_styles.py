"""The styles in which families of language models write call arguments as XML parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..json.text import Space

SPACE = r"[ \n\r\t]"


class ParameterStyle(NamedTuple):
    """A style: how a parameter is written, and how much white space may stand around it.

    ``begin`` has ``{name}``, ``{type}``, and ``{between}`` for white space. White space is given by patterns.
    """

    begin: str
    end: str
    between: str = r"\n?"  # before a parameter, and where its begin says so
    around: str = r"\n?"  # around a value, but not around strings without a condition
    after: str = r"\n?"  # after all parameters
    blank: bool = True  # whether that may stand where there is no parameter
    whitespace: Space = "space"  # in JSON values
    types: Mapping[str, str] | None = None  # what is written for each JSON type; None: nothing is
    padded: bool = True  # whether white space may stand around strings with a condition, too
    item: str | None = None  # the begin of an item: arrays and objects are XML; None: they are JSON
    item_end: str = ""
    between_items: str = ""
    marks: tuple[str, ...] = ()  # what no string may contain, beside the end
    names: str = r"^[A-Za-z_][A-Za-z0-9_]*$"  # names that are not declared; "": there are none
    entities: Mapping[str, str] = {}  # characters of names that are written in another way
    quote: str = ""  # around strings; then arrays and objects have brackets, and commas between their parts
    any_order: bool = False  # whether members stand in any order, not in the declared one

    def relaxed(self, most: int | None = None) -> ParameterStyle:
        """Return this style with any white space where it may stand: runs of at most ``most`` characters."""
        space = f"{SPACE}{{0,{most}}}" if most is not None else f"{SPACE}*"
        between_items = self.between_items and space
        return self._replace(
            between=space,
            around=self.around and space,
            after=space,
            whitespace="flexible" if most is None else most,
            between_items=between_items,
        )


JSON_TYPES = ("string", "number", "boolean", "null", "object", "array")
QWEN = ParameterStyle("<parameter={name}>", "</parameter>")
GLM = ParameterStyle("<arg_key>{name}</arg_key>{between}<arg_value>", "</arg_value>", around="")
MINIMAX = ParameterStyle('<parameter name="{name}">', "</parameter>")
DSML = "｜DSML｜"
DEEPSEEK = ParameterStyle(
    f'<{DSML}parameter name="{{name}}" string="{{type}}">',
    f"</{DSML}parameter>",
    types=dict.fromkeys(JSON_TYPES, "false") | {"string": "true"},
    padded=False,
)
KIMI = ParameterStyle(
    '<|open|>argument key="{name}" type="{type}"<|sep|>',
    "<|close|>argument<|sep|>",
    types={kind: kind for kind in (*JSON_TYPES, "integer")},  # "integer" only where no schema says the type
    entities={"&": "&amp;", '"': "&quot;"},
)
COHERE = ParameterStyle(
    '<cofl:value name="{name}" type="{type}">',
    "</cofl:value>",
    types=dict.fromkeys(JSON_TYPES, "json") | {"string": "raw", "object": "dict", "array": "list"},
    item='<cofl:value type="{type}">',
    item_end="</cofl:value>",
    names=r"^[^\x00]+$",
    entities={"&": "&amp;", '"': "&quot;", "<": "&lt;", ">": "&gt;"},
)
M3 = "]<]minimax[>["
MINIMAX_M3 = ParameterStyle(
    f"{M3}<{{name}}>", f"{M3}</{{name}}>", around="", item=f"{M3}<item>", item_end=f"{M3}</item>",
    between_items=r"\n?", blank=False, marks=(M3,), names="",
)  # fmt: skip
GEMMA = ParameterStyle(
    "{name}:", "", between="", around="", after="", padded=False, item="", blank=False, marks=('<|"|>',), names="", quote='<|"|>',
    any_order=True,
)  # fmt: skip
STYLES: dict[str, ParameterStyle] = {
    "qwen_xml": QWEN,
    "minimax_xml": MINIMAX,
    "glm_xml": GLM._replace(around=SPACE),
    "deepseek_xml": DEEPSEEK,
    "deepseek_v4_1_xml": DEEPSEEK._replace(
        begin=f'<{DSML} parameter name="{{name}}" string="{{type}}">', end=f"</{DSML} parameter>"
    ),
    "kimi_k3_xml": KIMI,
    "cohere_xml": COHERE,
    "minimax_m3_xml": MINIMAX_M3,
}
"""The values of ``style`` for ``json_schema`` formats in structural tags that write XML parameters; any white space is added."""
