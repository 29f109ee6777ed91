"""Function calls against their oracles: ``json``, ``ast`` and ``jsonschema`` read what the automaton writes."""

import json

import tractile as tt

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "book",
            "parameters": {
                "type": "object",
                "properties": {"hotel": {"type": "string"}, "nights": {"type": "integer"}, "extras": {"type": "array"}},
                "required": ["hotel"],
            },
        },
    },
    {"name": "pay", "parameters": {"amount": {"type": "float"}, "by": {"type": "str, optional"}}},
    {"name": "where", "parameters": {"type": "dict", "properties": {"at": {"type": "tuple", "items": {"type": "float"}}}}},
]  # fmt: skip


def test_files_and_text(tmp_path):
    file = tmp_path / "tools.jsonl"
    file.write_text("\n".join(map(json.dumps, TOOLS)))
    for given_tools in (json.dumps(TOOLS), file, str(file), TOOLS):
        assert tt.constraints.function_calls(given_tools).accepts(
            '{"name": "pay", "arguments": {"amount": 1}}'
        )
