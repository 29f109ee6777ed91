"""JSON-Schema-Test-Suite, from a copy of it: how many of its instances are judged right, wrong, or not at all.

    right      accepted and valid, or rejected and not
    wrong      accepted though invalid, or rejected though valid
    refused    the schema raises an error that names what is not supported

The suite is not part of this repository: give the folder that holds its ``tests`` (with ``--smoke``, a few of the same form
stand for it). Instances are texts as
``json.dumps(ensure_ascii=False)`` writes them. Members may stand in any order; ``--optional`` adds the optional tests and
``--format`` those of formats, in which they assert (in the others they are annotations, as the suite has it). With
``--default`` every schema is compiled with the default options instead, but that formats assert in the tests of formats.

    python tests/conformance/json_suite.py [--smoke] [--suite FOLDER] [--drafts NAMES] [--optional] [--format] [--default]
                                           [--show]

``--drafts`` takes names such as draft2020-12,draft7.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import tractile as tt

SPELLING = {
    "draft4": "http://json-schema.org/draft-04/schema#",
    "draft6": "http://json-schema.org/draft-06/schema#",
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
}


SMOKE = [
    {
        "description": "a member and what may stand beside it",
        "schema": {
            "properties": {"name": {"type": "string", "minLength": 2}},
            "additionalProperties": {"type": "null"},
        },
        "tests": [
            {"description": "short enough", "data": {"name": "Bo", "x": None}, "valid": True},
            {"description": "too short", "data": {"name": "B"}, "valid": False},
            {"description": "another member", "data": {"x": 1}, "valid": False},
        ],
    }
]


def remotes(suite: Path) -> dict[str, Any]:
    """The documents to which the suite's schemas refer: its own, by the address of their server, and the drafts' meta-schemas."""
    from jsonschema_specifications import REGISTRY

    folder = suite / "remotes"
    own = {f"http://localhost:1234/{p.relative_to(folder).as_posix()}": p for p in folder.rglob("*.json")}
    return {uri: resource.contents for uri, resource in REGISTRY.items()} | {
        uri: json.loads(path.read_text(encoding="utf-8")) for uri, path in own.items()
    }


def judge(group: dict[str, Any], draft: str, options: dict[str, Any]) -> list[tuple[str, str]]:
    """The verdict on each instance of a schema compiled with these options, with what it is about."""
    schema = group["schema"]
    if isinstance(schema, dict):
        schema = {"$schema": SPELLING[draft], **schema}
    try:
        constraint = tt.constraints.json_schema(schema, on_narrowed="ignore", **options)
    except tt.TractileError as error:
        return [("refused", str(error))] * len(group["tests"])
    verdicts = []
    for test in group["tests"]:
        accepted = constraint.accepts(json.dumps(test["data"], ensure_ascii=False))
        what = "rejected though valid" if test["valid"] else "accepted though invalid"
        verdicts.append(("right" if accepted == test["valid"] else "wrong", f"{test['description']}: {what}"))
    return verdicts


def main() -> None:
    """Print a line for each draft, and with ``--show`` one for each schema that is not all right."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="as little as shows that it works")
    parser.add_argument("--suite", type=Path, help="the folder that holds the suite's tests/")
    parser.add_argument("--drafts", default=",".join(SPELLING))
    parser.add_argument("--order", default="any", choices=["declared", "auto", "any"])
    parser.add_argument("--optional", action="store_true", help="the optional tests too")
    parser.add_argument("--format", action="store_true", help="the tests of formats too")
    parser.add_argument("--default", action="store_true", help="the default options")
    parser.add_argument("--show", action="store_true", help="what is wrong and what is refused")
    args = parser.parse_args()
    if args.suite is None and not args.smoke:
        print("no --suite given: nothing to measure")
        return
    if args.smoke:
        count = Counter(verdict for group in SMOKE for verdict, _ in judge(group, "draft2020-12", {}))
        print(f"smoke: {dict(count)}")
        return
    documents = remotes(args.suite)
    for draft in args.drafts.split(","):
        folder = args.suite / "tests" / draft
        files = [(path, "annotate") for path in sorted(folder.glob("*.json"))]
        if args.optional:
            files += [(path, "annotate") for path in sorted((folder / "optional").glob("*.json"))]
        if args.format:
            files += [(path, "assert") for path in sorted((folder / "optional" / "format").glob("*.json"))]
        if not files:
            parser.error(f"{folder} holds no tests")
        count = Counter[str]()
        begin = time.process_time()
        for path, formats in files:
            for group in json.loads(path.read_text(encoding="utf-8")):
                options = {"order": args.order, "formats": formats, "documents": documents}
                if args.default:
                    options = {"documents": documents} | (
                        {} if formats == "annotate" else {"formats": formats}
                    )
                verdicts = judge(group, draft, options)
                count.update(verdict for verdict, _ in verdicts)
                for verdict, what in dict.fromkeys(verdicts) if args.show else ():
                    if verdict != "right":
                        print(f"  {verdict}  {path.stem}  {group['description']}  {what}")
        total = count.total()
        shares = "   ".join(f"{v} {count[v]} ({count[v] / total:.1%})" for v in ("right", "wrong", "refused"))
        print(
            f"{draft:13} {total:5} instances   {shares}   {time.process_time() - begin:.1f} s CPU", flush=True
        )


if __name__ == "__main__":
    main()
