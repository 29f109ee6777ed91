"""Train the small language model that ships in ``embedded/lm``.

    text (TinyStories + samples of a teacher) -> BPE with byte fallback -> Llama of about 1M parameters

A document is ``<s> text </s>``.  In every epoch each story is either kept whole or cut anew at random into runs of
consecutive sentences (the number of sentences is geometric), so the model learns both to tell a story and to finish
a short passage.  The loss of a batch is the mean of  -log p(x_t | x_<t)  over all its tokens, in nats.

    python bench/training/train_embedded_lm.py --minutes 40 --out embedded/lm

Everything that takes long is kept in ``--work`` and taken up again when the script is started a second time:
the teacher's text by shard, the weights with the optimiser's state by checkpoint.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import logging
import math
import os
import random
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import zstandard
from rich.console import Console
from rich.progress import Progress
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from tokenizers import Regex, Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer
from torch import Tensor, nn
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DynamicCache,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

from tractile.lm.architectures import cache_argument

UNK, BOS, EOS = 0, 1, 2
VOCABULARY, CONTEXT = 1024, 256
WIDTHS = (
    16,
    24,
    32,
    40,
    48,
    64,
    80,
    96,
    128,
    160,
    192,
    256,
)  # a document is padded to the first width that holds it
SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[.!?][\"'])\s+")
log = logging.getLogger("train_embedded_lm")


# ---------------------------------------------------------------------------------------------------------- text


def read_stories(folder: Path) -> tuple[list[str], list[str]]:
    """The stories for training and those held out (3 % of the separated stories, chosen by a hash of the text)."""
    train, held_out = [], []
    for path in sorted(folder.glob("*.txt.zst")):
        with path.open("rb") as file:
            text = io.TextIOWrapper(zstandard.ZstdDecompressor().stream_reader(file), encoding="utf-8").read()
        separated = "<|endoftext|>" in text
        for story in text.split("<|endoftext|>") if separated else text.split("\n\n"):
            story = " ".join(story.split())
            if len(story) < 20:
                continue
            chosen = separated and hashlib.blake2b(story.encode(), digest_size=2).digest()[0] < 8
            (held_out if chosen else train).append(story)
    if not train:
        raise SystemExit(f"no *.txt.zst with stories in {folder}: pass --data")
    return train, held_out


def sentences(story: str) -> list[str]:
    """Split after a full stop, but never inside a pair of double quotes."""
    whole, part = [], ""
    for piece in SENTENCE_END.split(story):
        part = f"{part} {piece}".strip()
        if part.count('"') % 2 == 0 and part:
            whole.append(part)
            part = ""
    return whole + ([part] if part else [])


@torch.inference_mode()
def sample_text(teacher: nn.Module, prompts: Tensor, length: int, generator: torch.Generator) -> Tensor:
    """Continue `prompts` (batch, m) to (batch, length) tokens at temperature 1."""
    cache, tokens, step = DynamicCache(config=teacher.config), [prompts], prompts
    for _ in range(length - prompts.shape[1]):
        logits = teacher(input_ids=step, use_cache=True, **{cache_argument(teacher): cache}).logits[:, -1]
        step = torch.multinomial(logits.float().softmax(-1), 1, generator=generator)
        tokens.append(step)
    return torch.cat(tokens, 1)


def teacher_stories(path: Path, stories: Sequence[str], characters: int, work: Path, seed: int) -> list[str]:
    """At least `characters` of text from the teacher, begun with the first 16 tokens of random training passages."""
    tokenizer = AutoTokenizer.from_pretrained(path)
    teacher = AutoModelForCausalLM.from_pretrained(path).eval()
    ends = {tokenizer.bos_token_id, tokenizer.eos_token_id}
    texts: list[str] = []
    total, shard = 0, 0
    with progress_bar("sampling the teacher", characters) as advance:
        while total < characters:
            file = work / f"teacher-{shard:04d}.json"
            if not file.exists():
                draw = random.Random(f"{seed}/{shard}")
                prompts: list[list[int]] = []
                while len(prompts) < 512:
                    parts = sentences(draw.choice(stories))
                    ids = tokenizer(" ".join(parts[draw.randrange(len(parts)) :])).input_ids[:16]
                    prompts += [ids] if len(ids) == 16 else []
                generator = torch.Generator().manual_seed(seed * 1_000_003 + shard)
                rows = sample_text(teacher, torch.tensor(prompts), 128, generator).tolist()
                cut = [
                    row[: next((i for i in range(1, len(row)) if row[i] in ends), len(row))] for row in rows
                ]
                found = [
                    " ".join(text.split()) for text in tokenizer.batch_decode(cut, skip_special_tokens=True)
                ]
                # the last sentence was cut off by the length: keep whole sentences only
                found = [text[: max(text.rfind(mark) for mark in ".!?") + 1] for text in found]
                write_atomically(file, json.dumps([text for text in found if len(text) > 20]).encode())
            new = json.loads(file.read_text())
            texts += new
            size = sum(map(len, new))
            total, shard = total + size, shard + 1
            advance(size)
    log.info("teacher: %d passages, %d characters", len(texts), total)
    return texts


# ----------------------------------------------------------------------------------------------------- tokenizer


def train_tokenizer(texts: Sequence[str]) -> PreTrainedTokenizerFast:
    """A SentencePiece-like BPE: spaces are ``▁``, pieces stay within words, other characters fall back to bytes."""
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    learner = Tokenizer(BPE())
    learner.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Metaspace(), pre_tokenizers.Split(Regex(r"\d|▁?[^\w▁]"), "isolated")]
    )
    learner.train_from_iterator(
        texts, BpeTrainer(vocab_size=VOCABULARY - len(special), limit_alphabet=80, show_progress=False)
    )
    learned = json.loads(learner.to_str())["model"]
    pieces = special + sorted(learned["vocab"], key=learned["vocab"].__getitem__)
    tokenizer = Tokenizer(
        BPE(
            vocab={piece: index for index, piece in enumerate(pieces)},
            merges=[tuple(merge) for merge in learned["merges"]],
            unk_token="<unk>",
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", BOS)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
        model_max_length=CONTEXT,
        clean_up_tokenization_spaces=False,
    )


# ----------------------------------------------------------------------------------------------------- documents

Story = list[list[int]]  # the tokens of each sentence


def encode(tokenizer: PreTrainedTokenizerFast, stories: Sequence[str]) -> list[Story]:
    """Tokens of every sentence. No piece crosses a space, so sentences joined are the text's own tokens."""
    parts = [sentences(story) for story in stories]
    flat = tokenizer([s for story in parts for s in story], add_special_tokens=False).input_ids
    each = iter(flat)
    return [[next(each) for _ in story] for story in parts]


def documents(stories: Sequence[Story], whole: float, mean: float, rng: random.Random) -> Iterator[list[int]]:
    """``<s> run of sentences </s>``: a share `whole` of the stories uncut, the others in runs of `mean` sentences.

    What is longer than the context goes on in a document of its own, without ``</s>`` in between.
    """
    for story in stories:
        keep = rng.random() < whole
        run: list[int] = []
        for index, sentence in enumerate(story):
            ends = index + 1 == len(story) or not (keep or rng.random() < 1 - 1 / mean)
            run += sentence
            while len(run) > CONTEXT - 2:
                yield [BOS, *run[: CONTEXT - 1]]
                run = run[CONTEXT - 1 :]
            if ends and run:
                yield [BOS, *run, EOS]
                run = []


def batches(docs: Sequence[list[int]], tokens: int, rng: random.Random | None) -> list[tuple[Tensor, Tensor]]:
    """Documents of like length together: (inputs, targets), each (tokens / width, width); target -100 is no token."""
    shelves: dict[int, list[list[int]]] = {width: [] for width in WIDTHS}
    for doc in docs:
        shelves[next(width for width in WIDTHS if len(doc) - 1 <= width)].append(doc)
    found = []
    for width, shelf in shelves.items():
        rows = tokens // width
        if rng is not None:
            rng.shuffle(shelf)
        for start in range(0, len(shelf), rows):
            inputs = torch.full((rows, width), EOS)
            targets = torch.full((rows, width), -100)
            for row, doc in enumerate(shelf[start : start + rows]):
                inputs[row, : len(doc) - 1] = torch.tensor(doc[:-1])
                targets[row, : len(doc) - 1] = torch.tensor(doc[1:])
            found.append((inputs, targets))
    if rng is not None:
        rng.shuffle(found)
    return found


# ------------------------------------------------------------------------------------------------------ training


def build_model(seed: int) -> LlamaForCausalLM:
    torch.manual_seed(seed)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=128,
            intermediate_size=352,
            num_hidden_layers=5,
            num_attention_heads=4,
            num_key_value_heads=4,
            max_position_embeddings=CONTEXT,
            rms_norm_eps=1e-5,
            initializer_range=0.04,
            tie_word_embeddings=True,
            bos_token_id=BOS,
            eos_token_id=EOS,
        )
    )


def total_loss(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """Sum of -log p over the targets, in nats."""
    logits = model(input_ids=inputs, use_cache=False).logits
    return nn.functional.cross_entropy(
        logits.float().flatten(0, 1), targets.flatten(), ignore_index=-100, reduction="sum"
    )


@dataclass(frozen=True)
class Loss:
    """Held-out loss: nats for each token (the end of the document is a token) and bits for each byte of text."""

    nats_per_token: float
    bits_per_byte: float
    tokens: int


@torch.inference_mode()
def evaluate(model: nn.Module, tokenizer: PreTrainedTokenizerFast, docs: Sequence[list[int]]) -> Loss:
    nats = sum(float(total_loss(model, *batch)) for batch in batches(docs, 8192, None))
    tokens = sum(len(doc) - 1 for doc in docs)
    size = sum(len(tokenizer.decode(doc, skip_special_tokens=True).encode()) for doc in docs)
    return Loss(nats / tokens, nats / size / math.log(2), tokens)


@dataclass
class Clock:
    """How far training is, by steps or by minutes of work, whichever is further."""

    steps: int
    minutes: float
    step: int = 0
    spent: float = 0.0

    def share(self) -> float:
        return min(1.0, max(self.step / self.steps, self.spent / 60 / self.minutes))


Optimizers = Sequence[torch.optim.Optimizer]


def build_optimizers(model: LlamaForCausalLM, lr: float) -> Optimizers:
    """Muon for the matrices inside the blocks (200 steps: 3.09 nats a token against 3.15), AdamW for the rest.

    Needs torch 2.9 or newer, which has Muon.
    """
    named = dict(model.named_parameters())
    embedding = [p for name, p in named.items() if "embed" in name]
    matrices = [p for name, p in named.items() if p.ndim > 1 and "embed" not in name]
    vectors = [p for p in named.values() if p.ndim == 1]
    return [
        torch.optim.Muon(matrices, lr=lr, weight_decay=0.1, momentum=0.95, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(
            [{"params": embedding, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}],
            lr=lr,
            betas=(0.9, 0.95),
        ),
    ]


def save_tokenizer(tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Save a tokenizer for any version of transformers: 5 writes the name of a class that 4 does not know."""
    tokenizer.save_pretrained(folder)
    config = folder / "tokenizer_config.json"
    config.write_text(config.read_text().replace('"TokenizersBackend"', '"PreTrainedTokenizerFast"'))


def save_checkpoint(path: Path, model: nn.Module, optimizers: Optimizers, clock: Clock) -> None:
    tensors = {f"model.{name}": value for name, value in model.named_parameters()}
    for which, optimizer in enumerate(optimizers):
        for index, state in optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{which}.{index}.{name}": value for name, value in state.items()}
    at = {"step": str(clock.step), "spent": str(clock.spent)}
    temporary = path.with_suffix(".tmp")
    save_file({name: value.detach().contiguous() for name, value in tensors.items()}, temporary, at)
    os.replace(temporary, path)


def load_checkpoint(path: Path, model: nn.Module, optimizers: Optimizers, clock: Clock) -> None:
    with safe_open(path, "pt") as file:
        at = file.metadata()
    tensors = load_file(path)
    with torch.no_grad():
        for name, value in model.named_parameters():
            value.copy_(tensors[f"model.{name}"])
    states: list[dict[int, dict[str, Tensor]]] = [{} for _ in optimizers]
    for name, value in tensors.items():
        if name.startswith("optimizer."):
            _, which, index, key = name.split(".")
            states[int(which)].setdefault(int(index), {})[key] = value
    for optimizer, state in zip(optimizers, states, strict=True):
        optimizer.load_state_dict(optimizer.state_dict() | {"state": state})
    clock.step, clock.spent = int(at["step"]), float(at["spent"])


def train(model: LlamaForCausalLM, stories: Sequence[Story], args: argparse.Namespace) -> Clock:
    """bf16 autocast, linear warm-up and linear decay to zero; the clock counts work, not time switched off."""
    optimizers = build_optimizers(model, args.lr)
    clock = Clock(args.steps, args.minutes)
    checkpoint = args.work / "checkpoint.safetensors"
    if checkpoint.exists():
        load_checkpoint(checkpoint, model, optimizers, clock)
        log.info("taken up at step %d", clock.step)
    forward: nn.Module = torch.compile(model, dynamic=True) if args.compile else model
    saved, seen, epoch = time.monotonic(), 0, 0
    recent: list[float] = []
    with progress_bar("training", 1000) as advance:
        shown = 0
        while clock.share() < 1:
            rng = random.Random(f"{args.seed}/{epoch}")
            order = batches(list(documents(stories, args.whole, args.mean, rng)), args.batch, rng)
            seen, epoch = seen + len(order), epoch + 1
            for inputs, targets in (
                order[max(0, len(order) - (seen - clock.step)) :] if seen > clock.step else []
            ):
                started = time.monotonic()
                share = clock.share()
                for optimizer in optimizers:
                    optimizer.zero_grad()
                    for group in optimizer.param_groups:
                        group["lr"] = args.lr * min(1.0, (clock.step + 1) / 100) * (1 - share)
                count = (targets != -100).sum()
                with torch.autocast("cpu", torch.bfloat16):
                    loss = total_loss(forward, inputs, targets) / count
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                for optimizer in optimizers:
                    optimizer.step()
                recent.append(float(loss.detach()))
                clock.step += 1
                # compiling is not training: a step of more than ten seconds counts as one second
                lasted = time.monotonic() - started
                clock.spent += lasted if lasted < 10 else 1.0
                advance(int(1000 * clock.share()) - shown)
                shown = int(1000 * clock.share())
                if clock.step % 100 == 0:
                    mean, share = sum(recent) / len(recent), clock.share()
                    log.info("step %d epoch %d share %.3f loss %.4f", clock.step, epoch, share, mean)
                    recent.clear()
                if time.monotonic() - saved > 120:
                    save_checkpoint(checkpoint, model, optimizers, clock)
                    saved = time.monotonic()
                if clock.share() >= 1:
                    break
    save_checkpoint(checkpoint, model, optimizers, clock)
    return clock


# --------------------------------------------------------------------------------------------------------- files


@contextlib.contextmanager
def progress_bar(name: str, total: int) -> Iterator[object]:
    """A bar on a terminal, nothing elsewhere; yields the function that advances it."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(name, total=total)
        yield lambda amount: bar.advance(task, amount)


def write_atomically(path: Path, content: bytes) -> None:
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_bytes(content)
    os.replace(temporary, path)


def shared_folder() -> Path:
    return Path(os.environ.get("TRACTILE_SHARED", Path(__file__).resolve().parents[3] / "shared"))


def main() -> None:
    parser = argparse.ArgumentParser(description="Train the language model that ships in embedded/lm.")
    parser.add_argument(
        "--data", type=Path, default=shared_folder() / "data/tinystories", help="folder of *.txt.zst"
    )
    parser.add_argument("--teacher", type=Path, default=shared_folder() / "models/stories260K")
    parser.add_argument(
        "--teacher-characters", type=int, default=4_000_000, help="text to sample from the teacher"
    )
    parser.add_argument("--out", type=Path, default=Path("embedded/lm"))
    parser.add_argument(
        "--work", type=Path, default=Path("build/embedded_lm"), help="shards, checkpoint and log"
    )
    parser.add_argument("--minutes", type=float, default=40, help="stop after this much training")
    parser.add_argument(
        "--steps", type=int, default=6000, help="or after this many steps, whichever comes first"
    )
    parser.add_argument("--batch", type=int, default=8192, help="tokens a batch, padding included")
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--whole", type=float, default=0.25, help="share of the stories that are not cut")
    parser.add_argument("--mean", type=float, default=2.5, help="mean number of sentences in a passage")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--compile", action=argparse.BooleanOptionalAction, default=True, help="needs a C++ compiler"
    )
    parser.add_argument("--only-sample", action="store_true", help="sample the teacher's text and stop")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    args.work.mkdir(parents=True, exist_ok=True)
    logging.basicConfig(
        level=logging.INFO,
        format="%(asctime)s %(message)s",
        handlers=[logging.FileHandler(args.work / "train.log"), logging.StreamHandler()],
    )

    real, held_out = read_stories(args.data)
    log.info("%d stories for training, %d held out", len(real), len(held_out))
    stories = real + teacher_stories(args.teacher, real, args.teacher_characters, args.work, args.seed)
    if args.only_sample:
        return
    folder = args.work / "tokenizer"
    if not folder.exists():
        train_tokenizer(real).save_pretrained(folder)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    encoded = encode(tokenizer, stories)
    tests = {
        "stories": list(documents(encode(tokenizer, held_out), 1.0, args.mean, random.Random(0))),
        "passages": list(documents(encode(tokenizer, held_out), 0.0, args.mean, random.Random(0))),
    }
    log.info("%d tokens an epoch", sum(len(s) for story in encoded for s in story))

    model = build_model(args.seed)
    log.info("%d parameters", sum(p.numel() for p in model.parameters()))
    clock = train(model, encoded, args)
    model = model.half()
    model.save_pretrained(args.out)
    save_tokenizer(tokenizer, args.out)
    shipped = LlamaForCausalLM.from_pretrained(args.out).float().eval()
    losses = {name: evaluate(shipped, tokenizer, docs) for name, docs in tests.items()}
    for name, loss in losses.items():
        log.info("held-out %s: %s", name, loss)
    report = {name: vars(loss) for name, loss in losses.items()} | {
        "steps": clock.step,
        "seconds": clock.spent,
    }
    write_atomically(args.work / "report.json", json.dumps(report, indent=2).encode())


if __name__ == "__main__":
    main()
