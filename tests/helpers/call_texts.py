"""Answers with calls of two tools, by family of models, as their chat templates write them."""

TOOLS = [
    {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
                                       "required": ["city"]}},
    {"name": "stop", "parameters": {"type": "object", "properties": {}}},
]  # fmt: skip

HERMES = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo", "days": 3}}\n</tool_call>'
XML = (
    "<tool_call>\n<function=weather>\n<parameter=city>\nOslo\n</parameter>\n<parameter=days>\n3\n</parameter>\n"
    "</function>\n</tool_call>"
)
CALL = '{"city": "Oslo", "days": 3}'
MARK = "<｜tool▁call"
DSML = '<｜DSML｜{0}>\n<｜DSML｜invoke name="{1}">\n{2}</｜DSML｜invoke>\n</｜DSML｜{0}>'
CITY, DAYS = (f'<｜DSML｜parameter name="{name}" string="{text}">{value}</｜DSML｜parameter>'
              for name, text, value in (("city", "true", "Oslo"), ("days", "false", 3)))  # fmt: skip
KIMI = ("<|tool_calls_section_begin|><|tool_call_begin|>functions.{}:0<|tool_call_argument_begin|>{}<|tool_call_end|>"
        "<|tool_calls_section_end|>")  # fmt: skip
MINIMAX = '<minimax:tool_call>\n<invoke name="{}">\n{}</invoke>\n</minimax:tool_call>'
M3 = ']<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name="{}">{}]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>'
COHERE = '<cofl:tool_calls><cofl:tool_call id="0" name="{}">{}</cofl:tool_call></cofl:tool_calls>'
WRITTEN = {
    "hermes": [HERMES, HERMES + "\n" + HERMES],
    "qwen_xml": [XML, XML + "\n" + XML],
    "llama": ['{"name": "weather", "parameters": {"city": "Oslo"}}'],
    "mistral": [f"[TOOL_CALLS]weather[ARGS]{CALL}", f"[TOOL_CALLS]weather[ARGS]{CALL}[TOOL_CALLS]stop[ARGS]{{}}"],
    "mistral_v3": [f'[TOOL_CALLS][{{"name": "weather", "arguments": {CALL}}}, {{"name": "stop", "arguments": {{}}}}]'],
    "deepseek": [f"{MARK}s▁begin｜>{MARK}▁begin｜>weather<｜tool▁sep｜>{CALL}{MARK}▁end｜>{MARK}s▁end｜>"],
    "deepseek_v3": [
        f"{MARK}s▁begin｜>{MARK}▁begin｜>function<｜tool▁sep｜>weather\n```json\n{CALL}\n```{MARK}▁end｜>{MARK}s▁end｜>"
    ],
    "glm": [
        "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n<arg_key>days</arg_key>\n"
        "<arg_value>3</arg_value>\n</tool_call>",
        "<tool_call>weather<arg_key>city</arg_key><arg_value>Oslo</arg_value></tool_call>",
    ],
    "deepseek_v3_2": [DSML.format("function_calls", "weather", "\n".join([CITY, DAYS, ""]))],
    "deepseek_v4": [DSML.format("tool_calls", "weather", CITY)],
    "kimi": [KIMI.format("weather", CALL)],
    "minimax": [MINIMAX.format("weather", '<parameter name="city">Oslo</parameter>\n<parameter name="days">3</parameter>\n')],
    "minimax_m3": [M3.format("weather", "]<]minimax[>[<city>Oslo]<]minimax[>[</city>]<]minimax[>[<days>3]<]minimax[>[</days>")],
    "cohere": [COHERE.format("weather", '<cofl:value name="city" type="raw">Oslo</cofl:value>')],
    "exaone": [HERMES.replace("\n", "")],
    "gemma3": ['{"name": "weather", "parameters": {"city": "Oslo"}}'],
    "gemma4": [
        '<|tool_call>call:weather{city:<|"|>Oslo<|"|>,days:3}<tool_call|>',
        '<|tool_call>call:weather{days:3,city:<|"|>Oslo<|"|>}<tool_call|><|tool_call>call:stop{}<tool_call|>',
    ],
    "functiongemma": ["<start_function_call>call:weather{city:<escape>Oslo<escape>}<end_function_call>"],
    "mimo": [XML.replace("<tool_call>\n", "<tool_call>").replace("\n</tool_call>", "</tool_call>")],
    "harmony": [
        f" to=functions.weather<|channel|>commentary json<|message|>{CALL}<|call|>",
        f"<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{CALL}<|call|>",
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=functions.stop "
        "<|constrain|>json<|message|>{}<|call|>",
    ],
}  # fmt: skip


EMPTY = {
    "hermes": '<tool_call>\n{"name": "stop", "arguments": {}}\n</tool_call>',
    "qwen_xml": "<tool_call>\n<function=stop>\n</function>\n</tool_call>", "llama": '{"name": "stop", "parameters": {}}',
    "mistral": "[TOOL_CALLS]stop[ARGS]{}", "mistral_v3": '[TOOL_CALLS][{"name": "stop", "arguments": {}}]',
    "deepseek": f"{MARK}s▁begin｜>{MARK}▁begin｜>stop<｜tool▁sep｜>{{}}{MARK}▁end｜>{MARK}s▁end｜>",
    "deepseek_v3": f"{MARK}s▁begin｜>{MARK}▁begin｜>function<｜tool▁sep｜>stop\n```json\n{{}}\n```{MARK}▁end｜>{MARK}s▁end｜>",
    "glm": "<tool_call>stop\n</tool_call>",
    "harmony": "<|channel|>commentary to=functions.stop <|constrain|>json<|message|>{}<|call|>",
    "deepseek_v3_2": DSML.format("function_calls", "stop", ""), "deepseek_v4": DSML.format("tool_calls", "stop", ""),
    "kimi": KIMI.format("stop", "{}"), "minimax": MINIMAX.format("stop", ""), "minimax_m3": M3.format("stop", ""),
    "cohere": COHERE.format("stop", ""), "exaone": '<tool_call>{"name": "stop", "arguments": {}}</tool_call>',
    "gemma3": '{"name": "stop", "parameters": {}}', "gemma4": "<|tool_call>call:stop{}<tool_call|>",
    "functiongemma": "<start_function_call>call:stop{}<end_function_call>",
    "mimo": "<tool_call><function=stop>\n</function></tool_call>",
}  # fmt: skip


LISTS = {
    "deepseek_v3_2": ("<｜DSML｜function_calls>\n", "</｜DSML｜function_calls>"),
    "deepseek_v4": ("<｜DSML｜tool_calls>\n", "</｜DSML｜tool_calls>"),
    "kimi": ("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
    "minimax": ("<minimax:tool_call>\n", "</minimax:tool_call>"),
    "minimax_m3": ("]<]minimax[>[<tool_call>\n", "]<]minimax[>[</tool_call>"),
    "cohere": ("<cofl:tool_calls>", "</cofl:tool_calls>"),
}


def twice(text, opening, closing):
    """A list of calls with its calls written twice."""
    return opening + text[len(opening) : len(text) - len(closing)] * 2 + closing
