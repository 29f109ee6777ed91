"""Structured output in vLLM: what is finished within a budget, what it costs, and how long a new schema waits.

One engine of vLLM (0.32, on a CPU or a GPU) with the language model that ships, to which each back end in turn is given: Tractile
(GCD as structured output; P-GCD as a logits processor), xgrammar, guidance, outlines, and none. They take turns in one process.

    finished   of texts that a budget has room for, how many are valid JSON of the schema and ended within it
    cost       tokens a second, CPU time of the process per token, CPU time inside the back end per token (masks and
               accepted tokens; of P-GCD, its change of the logits), wall time of a step's masks, and time to the first token,
               with equal and with all-different constraints
    arrival    while eight requests run, new schemas arrive one by one: time to the first token, and the longest step meanwhile

    python benchmarks/serving.py [--smoke] [--backends NAME …] [--schemas FILE.jsonl.gz] [--limit N] [--out FILE.json]

``--model`` takes another language model: then without P-GCD.

Needs vLLM: ``make test-vllm`` puts it into .venv-vllm.
"""

import argparse
import gzip
import importlib.util
import json
import os
import statistics
import sys
import time
from collections import defaultdict
from decimal import Decimal, InvalidOperation, localcontext
from pathlib import Path
from typing import Any

from peers.masks import BOOLEAN, INTEGER, NUMBER, STRING, object_of

import tractile as tt
from tractile.embedded import HMM_PATH, LM_PATH

BACKENDS = ["Tractile", "Tractile P-GCD", "xgrammar", "guidance", "outlines", "none"]
BUDGETS = [16, 32, 64, 128, 256]
MOST_DIGITS = 5000  # more than any text writes out
PROMPT = "The names of the girls were"


def array(items: Any, **bounds: int) -> dict[str, Any]:
    return {"type": "array", "items": items, **bounds}


SCHEMAS = [
    BOOLEAN,
    {"enum": ["red", "green", "blue"]},
    array(BOOLEAN, minItems=1),
    array(STRING),
    array(INTEGER, minItems=2, maxItems=5),
    object_of(a=STRING),
    object_of(age=INTEGER),
    object_of(ok=BOOLEAN, why=STRING),
    object_of(x=NUMBER, y=NUMBER),
    object_of(name=STRING, age=INTEGER),
    object_of(name=STRING, friend=STRING, place=STRING),
    object_of(city={"type": "string", "minLength": 3, "maxLength": 12}, days=INTEGER),
    object_of(tags=array(STRING, minItems=2)),
    object_of(["b"], a=STRING, b=STRING, c=STRING),
    object_of(kind={"enum": ["dog", "cat", "bird"]}, name=STRING),
    object_of(items=array(object_of(id=INTEGER, name=STRING), minItems=1)),
    object_of(a=object_of(b=object_of(c=STRING))),
    object_of(when={"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"}, what=STRING),
    object_of(first=STRING, second=STRING, third=STRING, fourth=STRING, fifth=STRING),
    object_of(title=STRING, body=STRING, rating={"type": "integer", "minimum": 1, "maximum": 5}),
]


def read_schemas(path: Path, limit: int) -> list[Any]:
    """The schemas of a data set: JSON lines with a schema, or with one under ``schema`` or ``json_schema``."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        rows = [json.loads(line) for line in lines]
    found = [row.get("schema", row.get("json_schema", row)) for row in rows]
    found = [json.loads(schema) if isinstance(schema, str) else schema for schema in found]
    return found[:: max(1, len(found) // limit)][:limit]


class Engine:
    """One vLLM engine, to which back ends are given in turn."""

    def __init__(self, any_whitespace: bool = False, model: Path = LM_PATH) -> None:
        self.any_whitespace = any_whitespace
        os.environ.update(
            VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_CPU_KVCACHE_SPACE="1", VLLM_ALLOW_LONG_MAX_MODEL_LEN="1",
            VLLM_LOGGING_LEVEL="CRITICAL", HF_HUB_OFFLINE="1", VLLM_NO_USAGE_STATS="1",
        )  # fmt: skip
        from vllm import LLM
        from vllm.exceptions import VLLMValidationError

        self.refusals = (ValueError, VLLMValidationError)
        self.llm = LLM(
            str(model), enforce_eager=True, max_model_len=512, max_num_seqs=64, enable_prefix_caching=False,
            additional_config={"tractile": True}, logits_processors=["serving:Guided"] if model == LM_PATH else [],
        )  # fmt: skip
        self.engine = self.llm.llm_engine
        core = self.engine.engine_core.engine_core
        self.manager = core.structured_output_manager
        self.kept: dict[str, Any] = {"Tractile": self.manager.backend}
        self.name = ""
        self.inside, self.fills, self.firsts, self.steps = 0.0, list[float](), list[float](), list[float]()
        runner = core.model_executor.driver_worker.worker.model_runner
        processors = runner.input_batch.logitsprocs.non_argmax_invariant
        for guided in (each for each in processors if type(each).__name__ == "Guided"):
            self._timed(guided, "apply")
        self._timed(self.manager, "grammar_bitmask")
        self._timed(self.manager, "accept_tokens")

    def _timed(self, owner: Any, name: str) -> None:
        """Count the CPU time of a method as time inside the back end."""
        method = getattr(owner, name)

        def timed(*args: Any, **kwargs: Any) -> Any:
            start, begun = time.thread_time(), time.perf_counter()
            try:
                return method(*args, **kwargs)
            finally:
                self.inside += time.thread_time() - start
                if name == "grammar_bitmask":
                    self.fills.append(time.perf_counter() - begun)

        setattr(owner, name, timed)

    def use(self, name: str) -> None:
        """Let requests go to a back end."""
        from vllm.config import StructuredOutputsConfig

        self.kept[self.name] = self.manager.backend
        self.name, self.manager.backend = name, self.kept.get(name)
        self.manager._grammar_bitmask = None
        config = StructuredOutputsConfig(
            backend=name if name in ("xgrammar", "guidance", "outlines") else "auto"
        )
        ours = name == "Tractile"
        if ours:
            config.backend = "tractile"
            config.tractile = {}
        # Compact JSON where a back end can be told so: its texts shall not be long for their white space.
        compact = name in ("xgrammar", "guidance") and not self.any_whitespace
        self.manager.vllm_config.structured_outputs_config.disable_any_whitespace = compact
        self.manager.vllm_config.additional_config = {"tractile": True} if ours else {}
        self.engine.input_processor.structured_outputs_config = config

    def params(self, schema: Any, budget: int, seed: int = 0, **settings: Any) -> Any:
        from vllm import SamplingParams
        from vllm.sampling_params import StructuredOutputsParams

        if self.name == "Tractile P-GCD":
            settings["extra_args"] = {"tractile": {"json_schema": schema}}
        elif self.name != "none":
            settings["structured_outputs"] = StructuredOutputsParams(json=json.dumps(schema))
        return SamplingParams(temperature=1.0, seed=seed, max_tokens=budget, **settings)

    def generate(self, params: list[Any]) -> list[Any]:
        """The outputs of a batch of requests; those that are refused are None."""
        known: dict[str, Any] = {}
        begun, waiting = time.perf_counter(), set[str]()
        for i, each in enumerate(params):
            name = f"{time.monotonic_ns()}-{i}"
            try:
                self.engine.add_request(name, PROMPT, each)
            except self.refusals:
                continue
            known[name] = i
            waiting.add(name)
        found: list[Any] = [None] * len(params)
        while self.engine.has_unfinished_requests():
            step = time.perf_counter()
            outputs = self.engine.step()
            self.steps.append(time.perf_counter() - step)
            for output in outputs:
                if output.request_id in waiting and output.outputs[0].token_ids:
                    waiting.discard(output.request_id)
                    self.firsts.append(time.perf_counter() - begun)
                if output.finished:
                    found[known[output.request_id]] = output.outputs[0]
        return found


def fewest_tokens(schemas: list[Any], tokenizer: Any) -> dict[int, int]:
    """The fewest tokens of a text of each schema that Tractile compiles, end of sequence included."""
    vocab = tt.Vocabulary.from_tokenizer(tokenizer)
    found = {}
    for i, schema in enumerate(schemas):
        try:
            found[i] = tt.constraints.json_schema(schema).compile(vocab).fewest_after([])
        except (tt.TractileError, RecursionError):
            continue
    return found


def decimal(text: str) -> Any:
    """The JSON of a text, its numbers not rounded: 1010.31 is a multiple of 0.01 only so."""

    def number(digits: str) -> int | Decimal:
        try:
            found = Decimal(digits)
        except InvalidOperation:  # an exponent of twenty digits
            return Decimal(0) if "-" in digits[1:] else Decimal(digits[: digits.startswith("-")] + "Infinity")
        whole = found.adjusted() < MOST_DIGITS and found == found.to_integral_value()
        return int(found) if whole else found

    return json.loads(text, parse_float=number)


def valid(output: Any, schema: Any) -> bool:
    """Whether a text has ended by itself and is JSON of the schema; numbers are decimal, as JSON writes them."""
    import jsonschema

    if output is None or output.finish_reason != "stop":
        return False
    try:
        with localcontext(prec=MOST_DIGITS):
            jsonschema.validate(decimal(output.text), decimal(json.dumps(schema)))
    except (ValueError, RecursionError, jsonschema.ValidationError, jsonschema.SchemaError):
        return False
    return True


def finished(
    engine: Engine, schemas: list[Any], budgets: list[int], backends: list[str], samples: int
) -> Any:
    """Of each back end and budget: the share of feasible texts that are valid and ended, and of those refused."""
    fewest, table = fewest_tokens(schemas, engine.llm.get_tokenizer()), {}
    for name in backends:
        engine.use(name)
        for budget in budgets:
            cases = [i for i in fewest if fewest[i] <= budget for _ in range(samples)]
            if not cases:
                continue
            outputs = engine.generate(
                [engine.params(schemas[i], budget, seed) for seed, i in enumerate(cases)]
            )
            good = sum(valid(o, schemas[i]) for o, i in zip(outputs, cases, strict=True))
            refused = sum(o is None or o.finish_reason == "error" for o in outputs)
            table[f"{name}/{budget}"] = {
                "texts": len(cases),
                "valid": good / len(cases),
                "refused": refused / len(cases),
            }
            print(f"finished  {name:15} {budget:4} tokens  {100 * good / len(cases):5.1f} % of {len(cases)}, "
                  f"{100 * refused / len(cases):.1f} % refused", flush=True)  # fmt: skip
    return table


def cost(engine: Engine, sizes: list[int], backends: list[str], rounds: int, budget: int) -> Any:
    """Medians over rounds, in which back ends take turns: tokens a second, and microseconds of CPU per token."""

    measured, fills, firsts, steps = (defaultdict(list) for _ in range(4))
    for round_ in range(rounds + 1):  # the first round compiles, and is not counted
        for size in sizes:
            for kind in ("equal", "different"):
                for name in backends:
                    if name == "Tractile P-GCD" and kind == "different" and size > 8:
                        continue  # the HMM is multiplied with each automaton first
                    engine.use(name)
                    letter = chr(ord("a") + backends.index(name))
                    names = [
                        f"{letter}{round_}x{i}" if kind == "different" else letter for i in range(size)
                    ]  # new ones in each round
                    long = [array(object_of(**{each: STRING}), minItems=2) for each in names]
                    params = [engine.params(schema, budget, seed=i) for i, schema in enumerate(long)]
                    engine.inside, engine.fills, engine.firsts, engine.steps = 0.0, [], [], []
                    wall, cpu = time.perf_counter(), time.process_time()
                    outputs = engine.generate(params)
                    wall = time.perf_counter() - wall
                    cpu = time.process_time() - cpu
                    tokens = sum(len(o.token_ids) for o in outputs if o is not None)
                    if round_ and tokens:
                        measured[f"{name}/{size}/{kind}"].append(
                            (tokens / wall, 1e6 * cpu / tokens, 1e6 * engine.inside / tokens)
                        )
                        fills[f"{name}/{size}/{kind}"] += engine.fills
                        firsts[f"{name}/{size}/{kind}"] += engine.firsts
                        steps[f"{name}/{size}/{kind}"] += engine.steps
    table = {}
    for key, rows in measured.items():
        speed, cpu, inside = (statistics.median(row[i] for row in rows) for i in range(3))
        times = {
            f"{label}_{q}_ms": quantile([1e3 * each for each in found[key] or [0.0]], q)
            for label, found in (("masks", fills), ("first", firsts), ("step", steps)) for q in (50, 95, 100)
        }  # fmt: skip
        table[key] = {"tokens_per_second": speed, "cpu_us": cpu, "inside_us": inside, **times}
        name, size, kind = key.split("/")
        print(f"cost      {name:20} {size:>3} {kind:9} requests  {speed:7.0f} tokens/s  {cpu:7.0f} µs CPU a token, "
              f"{inside:6.1f} inside the back end; masks of a step, ms: p50 {times['masks_50_ms']:.2f}, "
              f"p95 {times['masks_95_ms']:.2f}, most {times['masks_100_ms']:.1f}; step p50 {times['step_50_ms']:.1f}, "
              f"p95 {times['step_95_ms']:.1f}, most {times['step_100_ms']:.0f}; first token "
              f"p50 {times['first_50_ms']:.0f}, p95 {times['first_95_ms']:.0f}", flush=True)  # fmt: skip
    return table


def quantile(values: list[float], percent: int) -> float:
    return sorted(values)[min(len(values) - 1, len(values) * percent // 100)]


def arrival(engine: Engine, schemas: list[Any], backends: list[str], rounds: int) -> Any:
    """New schemas while eight requests run: milliseconds to the first token, and of the longest step meanwhile."""
    table = {}
    for name in backends:
        first, longest = [], []
        for round_ in range(rounds):
            engine.use(name)
            for schema in schemas:
                fresh = object_of(**{f"{name}{round_}".replace(" ", ""): schema})
                for i in range(8 - engine.engine.get_num_unfinished_requests()):
                    running = engine.params(array(STRING, minItems=90), 400, seed=i)
                    engine.engine.add_request(f"{time.monotonic_ns()}-{i}", PROMPT, running)
                for _ in range(3):
                    engine.engine.step()
                start, mine = time.perf_counter(), f"{time.monotonic_ns()}-new"
                try:
                    engine.engine.add_request(mine, PROMPT, engine.params(fresh, 48))
                except engine.refusals:
                    continue
                worst, seen = time.perf_counter() - start, False  # checking a request counts as a step
                while not seen and engine.engine.has_unfinished_requests():
                    begun = time.perf_counter()
                    seen = any(o.request_id == mine and o.outputs[0].token_ids for o in engine.engine.step())
                    worst = max(worst, time.perf_counter() - begun)
                first.append(1e3 * (time.perf_counter() - start))
                longest.append(1e3 * worst)
            while engine.engine.has_unfinished_requests():
                engine.engine.step()
        quantiles = {
            f"{label}_{q}": quantile(values, q)
            for label, values in (("first", first), ("step", longest))
            for q in (50, 95)
        }
        table[name] = {"schemas": len(first), **quantiles}
        print(f"arrival   {name:15} first token {quantiles['first_50']:6.1f} ms, p95 {quantiles['first_95']:6.1f}; "
              f"longest step {quantiles['step_50']:6.1f}, p95 {quantiles['step_95']:6.1f}", flush=True)  # fmt: skip
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--smoke", action="store_true", help="as little as shows that it works")
    parser.add_argument("--backends", nargs="+", choices=BACKENDS, default=BACKENDS)
    parser.add_argument("--schemas", type=Path, help="JSON lines of schemas instead of the twenty here")
    parser.add_argument("--limit", type=int, default=100, help="schemas of the data set")
    parser.add_argument("--parts", nargs="*", default=["finished", "cost", "arrival"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--texts", type=int, default=4, help="of each schema and budget, for finished")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 8, 32], help="requests at a time")
    parser.add_argument("--any-whitespace", action="store_true", help="vLLM's defaults for the others")
    parser.add_argument("--model", type=Path, default=LM_PATH, help="folder of a language model")
    parser.add_argument("--out", type=Path, help="figures as JSON")
    options = parser.parse_args()
    if options.parts and importlib.util.find_spec("vllm") is None:
        print("serving.py: nothing was measured without vLLM; `make test-vllm` puts it into .venv-vllm")
        sys.exit(0 if options.smoke else 1)
    schemas = SCHEMAS if options.schemas is None else read_schemas(options.schemas, options.limit)
    result: dict[str, Any] = defaultdict(dict)
    engine: Any = Engine(options.any_whitespace, options.model) if options.parts else None
    backends, small = options.backends, options.smoke
    few, rounds = (slice(2), 1) if small else (slice(None), options.rounds)
    parts = {
        "finished": lambda: finished(
            engine, schemas[few], BUDGETS[few], backends, 1 if small else options.texts
        ),
        "cost": lambda: cost(
            engine, [1, 4] if small else options.sizes, backends, rounds, 40 if small else 64
        ),
        "arrival": lambda: arrival(engine, schemas[few], backends, rounds),
    }
    for part in options.parts:
        result[part] |= parts[part]()
    if options.out is not None:
        options.out.write_text(json.dumps(result, indent=1) + "\n")


if importlib.util.find_spec("vllm") is not None:
    from tractile.decoding.vllm import VLLMLogitsProcessor

    class Guided(VLLMLogitsProcessor):
        """P-GCD, for requests that name it."""

        tokenizer = str(LM_PATH)
        hmm = str(HMM_PATH)


if __name__ == "__main__":
    main()
