"""Table 2 of Dang et al. (2026) again: what decoding under a constraint costs beside a language model of eight billion weights.

A Llama of the 8B size made from its configuration with random weights in bfloat16 (V = 128,256), 16 rows at a time, one JSON
Schema for each batch, every row with the budget of all tokens:

    unconstrained     the model's forward pass and sampling alone
    LCD, GCD          masks made on the host while the model works, packed into 32-bit words
    P-GCD             random HMMs, H = 1,024 and 4,096 dense, 16,384 Monarch (128 × 128), tables in bfloat16; the lookahead
                      is computed on a stream of its own while the model works

Milliseconds per token for the batch (a step), the median over batches; *slowdown* is over unconstrained; *bound* is
what the bytes and operations of the step beside the model's must take at the bandwidth and speed measured here. The
share of rows that the automaton accepts is given. The forward pass and the P-GCD step are CUDA graphs (``--eager``: neither is).
Word-like tokens stand for the vocabulary, since no tokenizer is needed to measure.

    python benchmarks/decoding_gpu.py [--examples 100] [--tokens 64] [--hidden 1024 4096 16384] [--eager] [--smoke]
"""

from __future__ import annotations

import argparse
import functools
import itertools
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from peers.masks import object_of
from transformers import LlamaConfig, LlamaForCausalLM, StaticCache

import tractile as tt
from decoding import random_hmm
from tractile.inference.next_token.gcd import GCDQuery
from tractile.inference.next_token.pgcd import PGCDQuery
from tractile.lm.architectures import cache_argument

PROMPT = 32  # tokens
EIGHT_BILLION = {
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128_256,
}
TINY = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 1_200,
}


TEXT, COUNT, FLAG = {"type": "string", "maxLength": 40}, {"type": "integer"}, {"type": "boolean"}
SCHEMAS = [
    object_of(name=TEXT, age=COUNT),
    object_of(location=TEXT, unit={"enum": ["celsius", "fahrenheit"]}, days={**COUNT, "minimum": 0}),
    object_of(title=TEXT, tags={"type": "array", "items": TEXT, "maxItems": 4}, public=FLAG),
    object_of(id=COUNT, status={"enum": ["open", "closed", "pending"]}, owner=object_of(email=TEXT, active=FLAG)),
    object_of(origin=TEXT, destination=TEXT, date={"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"}),
    object_of(query=TEXT, limit=COUNT, sort={"enum": ["asc", "desc"]}),
    object_of(steps={"type": "array", "items": object_of(action=TEXT), "minItems": 1, "maxItems": 3}),
]  # fmt: skip


def vocabulary(size: int) -> tt.Vocabulary:
    """Bytes, digits, signs of JSON and words of syllables, with and without a space; the last token ends a text."""
    # fmt: off
    signs = ['":', '": "', '", "', '{"', '"}', '},', '],', '":"', '[{"', '": {', '": [', 'true', 'false', 'null', '  ']
    # fmt: on
    tokens = [bytes([b]) for b in range(256)] + [s.encode() for s in signs]
    tokens += [str(i).encode() for i in range(10, min(1000, size // 8))]
    syllables = [
        "".join(s)
        for s in itertools.product([*"bcdfghklmnprstvw", "st", "tr", "ch"], "aeiou", ["", *"nrstl"])
    ]
    pick, seen = random.Random(0), set(tokens)
    while len(tokens) < size - 1:
        word = "".join(pick.choices(syllables, k=pick.choice([1, 2, 2, 3])))
        token = pick.choice(["", " ", " "]).encode() + pick.choice([word, word, word.title()]).encode()
        if token not in seen:
            seen.add(token)
            tokens.append(token)
    return tt.Vocabulary([*tokens, None], eos_token_id=size - 1)


class Model:
    """The language model with a cache of fixed size: a forward pass over one token for each row, as a graph."""

    def __init__(self, sizes: dict[str, int], length: int, device: torch.device, graph: bool) -> None:
        config = LlamaConfig(**sizes, max_position_embeddings=2048)
        default = torch.get_default_dtype()
        torch.set_default_dtype(torch.bfloat16)
        with device:
            self.net = LlamaForCausalLM(config).eval()
        torch.set_default_dtype(default)
        self.length, self.device, self.graph = length, device, graph
        self.bytes = sum(p.nbytes for p in self.net.parameters())
        self._replay: Any = None

    def start(self, prompts: torch.Tensor) -> torch.Tensor:
        """Logits after the prompts."""
        if self._replay is None:
            self.cache = StaticCache(
                config=self.net.config,
                max_cache_len=self.length,
                max_batch_size=len(prompts),  # this and the rest: before transformers 4.56
                device=self.device,
                dtype=self.net.dtype,
            )
        else:
            self.cache.reset()
        logits = self._forward(prompts)
        if self.graph and self._replay is None:
            self._capture(len(prompts))
            return self.start(prompts)
        return logits

    def _forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits after the last token; the cache counts positions, in a tensor of its own."""
        cache = {cache_argument(self.net): self.cache}
        return self.net(tokens, use_cache=True, **cache).logits[:, -1].float()

    def _capture(self, batch: int) -> None:
        given = torch.zeros(batch, 1, dtype=torch.long, device=self.device)
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(3):
                self._forward(given)
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            logits = self._forward(given)
        self._replay = graph, given, logits

    def step(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits after one more token in each row."""
        if self._replay is None:
            return self._forward(tokens[:, None])
        graph, given, logits = self._replay
        given.copy_(tokens[:, None])
        graph.replay()
        return logits


class Masks:
    """LCD and GCD: masks for the next step are made on the host while the model works."""

    def __init__(self, query: GCDQuery, device: torch.device) -> None:
        self.query, self.device = query, device
        self.shift = torch.arange(32, device=device, dtype=torch.int32)

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        words = self.query.bitmask()
        words = words.pin_memory() if self.device.type == "cuda" else words
        words = words.to(self.device, non_blocking=True)
        allowed = (words[:, :, None] >> self.shift & 1).bool().flatten(1)[:, : logits.shape[1]]
        return logits.masked_fill(~allowed, -torch.inf)


@functools.cache
def stream() -> torch.cuda.Stream:
    """The stream of the lookahead."""
    return torch.cuda.Stream()


def decode(model: Model, prompts: torch.Tensor, tokens: int, guide: Any) -> tuple[torch.Tensor, float]:
    """The tokens sampled, (batch, tokens), and the milliseconds that a step took."""
    cuda = model.device.type == "cuda"
    generator = torch.Generator(model.device).manual_seed(0)
    logits, drawn = model.start(prompts), []
    beside = stream() if cuda else None  # for the lookahead, while the model works
    if cuda:
        torch.cuda.synchronize()
    begin = time.perf_counter()
    ahead = guide.lookahead() if isinstance(guide, PGCDQuery) else None
    for step in range(tokens):
        if ahead is not None:
            if beside is not None:
                torch.cuda.current_stream().wait_stream(beside)
            logits = logits + ahead.to(logits.dtype)
        elif guide is not None:
            logits = guide.apply(logits)
        chosen = torch.multinomial(logits.softmax(1), 1, generator=generator).squeeze(1)
        drawn.append(chosen)
        if beside is not None:
            beside.wait_stream(torch.cuda.current_stream())
        if isinstance(guide, Masks):
            host = torch.empty(chosen.shape, dtype=chosen.dtype, pin_memory=cuda)
            host.copy_(chosen, non_blocking=True)
            event = torch.cuda.Event() if cuda else None
            if event is not None:
                event.record()
        if step + 1 < tokens:
            logits = model.step(chosen)
            if ahead is not None:
                with torch.cuda.stream(beside):
                    guide.advance(chosen)
                    ahead = guide.lookahead()
            elif guide is not None:
                if event is not None:
                    event.synchronize()  # the sampling, not the forward pass that was queued after it
                guide.query.advance(host)
    if cuda:
        torch.cuda.synchronize()
    return torch.stack(drawn, 1), 1e3 * (time.perf_counter() - begin) / tokens


def speeds(device: torch.device) -> tuple[float, float]:
    """Bytes and operations (bfloat16) a millisecond, by a large copy and a large product."""
    size = 1 << (30 if device.type == "cuda" else 24)
    x, y = (torch.empty(size, dtype=torch.uint8, device=device) for _ in range(2))
    side = 8192 if device.type == "cuda" else 256
    a = torch.rand(side, side, device=device).bfloat16()

    def best(call: Callable[[], object]) -> float:
        times = []
        for _ in range(6):
            begin = time.perf_counter()
            call()
            if device.type == "cuda":
                torch.cuda.synchronize()
            times.append(1e3 * (time.perf_counter() - begin))
        return min(times)

    return 2 * size / best(lambda: y.copy_(x)), 2 * side**3 / best(lambda: a @ a)


def bound(query: PGCDQuery, hmm: tt.HMM, batch: int, bandwidth: float, speed: float) -> tuple[float, int]:
    """Milliseconds that a step of P-GCD must take: its bytes or its operations, whichever is more; and its bytes."""
    wide, narrow = query._messages.edges.wide.most, query._messages.edges.narrow.most
    rows = batch * (1 + wide)
    transition = sum(p.nbytes for p in hmm.transition.parameters())
    size = 2 * hmm.hidden * hmm.vocab_size + transition + 4 * rows * hmm.vocab_size
    size += batch * hmm.hidden * (2 * wide + 4 * narrow)  # backward messages, and columns gathered
    operations = 2 * rows * hmm.hidden * hmm.vocab_size
    return max(size / bandwidth, operations / speed), size


@torch.no_grad()
def main(arguments: list[str] | None = None) -> dict[str, tuple[float, float]]:
    """(ms per token, share of rows within the constraint) of each method."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--examples", type=int, default=100)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--hidden", type=int, nargs="*", default=[1024, 4096, 16384])
    parser.add_argument("--eager", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args(arguments)
    sizes = EIGHT_BILLION
    if options.smoke:
        sizes, options.examples, options.batch, options.tokens, options.hidden = TINY, 2, 2, 40, [16]
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    graphs = device.type == "cuda" and not options.eager
    torch.manual_seed(0)
    model = Model(sizes, PROMPT + options.tokens, device, graphs)
    vocab = vocabulary(sizes["vocab_size"])
    bandwidth, speed = speeds(device)
    name = torch.cuda.get_device_name() if device.type == "cuda" else "the processor"
    print(
        f"{name}, torch {torch.__version__}, {model.bytes / 1e9:.2f} GB of weights, V = {len(vocab)}, batch ",
        end="",
    )
    print(
        f"{options.batch}, {options.examples} examples of {options.tokens} tokens, {'graphs' if graphs else 'eager'}; ",
        end="",
    )
    print(f"copies {bandwidth / 1e9:.2f} TB/s, products {speed / 1e9:.0f} TFLOP/s\n", flush=True)  # fmt: skip
    batches = -(-options.examples // options.batch)
    automata = [tt.constraints.json_schema(schema).compile(vocab) for schema in SCHEMAS[:batches]]
    print(f"automata of {', '.join(str(fa.num_states) for fa in automata)} states", flush=True)
    prompts = torch.randint(0, 256, (options.batch, PROMPT), device=device)

    def run(make: Callable[[tt.Automaton], Any]) -> tuple[float, float]:
        """Median ms per token over batches, and the share of rows that ended within the constraint."""
        times, ended = list[float](), list[bool]()
        for i in range(batches):
            fa = automata[i % len(automata)]
            guide = None  # frees the tables of the last one
            guide = make(fa)
            decode(model, prompts, min(4, options.tokens), guide)  # warm
            guide = make(fa) if isinstance(guide, Masks) else guide
            if isinstance(guide, PGCDQuery):
                guide.start(options.batch)
                if graphs:
                    guide.capture()
            drawn, taken = decode(model, prompts, options.tokens, guide)
            times.append(taken)
            ended += [fa.accepts(row) for row in drawn.tolist()]
        return statistics.median(times), statistics.mean(ended)

    def guided(hmm: tt.HMM) -> Callable[[tt.Automaton], PGCDQuery]:  # what tt.pgcd makes for an HMM on a GPU
        def make(fa: tt.Automaton) -> PGCDQuery:
            masks = tt.gcd(fa, options.tokens)
            query = PGCDQuery(hmm, masks, fa, options.tokens, dtype=torch.bfloat16, padded=True)
            return query.start(options.batch)

        return make

    print(
        "\n| method | ms per token | slowdown | bound, ms | GB | within the constraint |\n"
        + "| --- " * 6
        + "|"
    )
    found: dict[str, tuple[float, float]] = {}

    def report(method: str, result: tuple[float, float], least: float, size: float) -> None:
        found[method] = result
        slowdown = result[0] / found["unconstrained"][0]
        cells = f"{result[0]:.3f} | {slowdown:.3f} | {least:.3f} | {size / 1e9:.2f} | {result[1]:.0%}"
        print(f"| {method} | {cells} |", flush=True)

    report("unconstrained", run(lambda fa: None), model.bytes / bandwidth, model.bytes)
    mask_bytes = options.batch * len(vocab) * 4
    for method, query in (("LCD", lambda fa: tt.lcd(fa)), ("GCD", lambda fa: tt.gcd(fa, options.tokens))):
        result = run(lambda fa, query=query: Masks(query(fa).start(options.batch), device))
        report(method, result, mask_bytes / bandwidth, mask_bytes)
    for hidden in options.hidden:
        hmm = random_hmm(hidden, len(vocab), device)
        query = guided(hmm)(automata[0])
        least, size = bound(query, hmm, options.batch, bandwidth, speed)
        del query
        report(f"P-GCD, H = {hidden}", run(guided(hmm)), least, size)
        del hmm
    return found


if __name__ == "__main__":
    main()
