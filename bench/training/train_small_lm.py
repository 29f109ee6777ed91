"""Train the small language model that ships in ``bench/tractile_bench/small_lm``: calls, SQL, sentences, goals and molecules.

    data sets -> (prompt, answer) pairs -> byte-level BPE -> Llama of some four million parameters

A document is ``<s> prompt answer </s>``. The loss of a batch is the mean of  -log p(x_t | x_<t)  over the tokens of
the answers and a random share of the tokens of the prompts (all of them in lists of molecules), in nats.

    python bench/training/train_small_lm.py --minutes 60 --out bench/tractile_bench/small_lm
    torchrun --nproc-per-node 2 bench/training/train_small_lm.py --threads 1        (two busy cores)
    python bench/training/train_small_lm.py --minutes 10 --device cuda --out bench/tractile_bench/small_lm

Everything that takes long is kept in ``--work`` and taken up again when the script is started a second time.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file
from tokenizers import Regex, Tokenizer, decoders, pre_tokenizers, processors
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

sys.path.insert(0, str(Path(__file__).resolve().parent))
import small_lm_goals
import small_lm_requests
import small_lm_text
from train_embedded_lm import (
    Clock,
    build_optimizers,
    load_checkpoint,
    progress_bar,
    save_checkpoint,
    save_tokenizer,
    shared_folder,
    write_atomically,
)

BOS, EOS = 0, 1
VOCABULARY, CONTEXT = 4096, 1024
LONGEST = 640  # tokens of a document
WIDTHS = (*range(16, 128, 16), *range(128, 384, 32), *range(384, LONGEST + 1, 64))
PROMPT_SHARE = 0.15  # of the tokens of prompts that count
COMMON = "the|a|an|of|to|in|is|are|for|and|or|on|at|by|with|from|that|this|it|as|be|was|his|her|he|she|they|what|how|i"
COMMON += "|FROM|WHERE|AND|AS|JOIN|ON|ORDER BY|GROUP BY|NOT IN|should be"
# Words stand without the space before them, so that a name is the same tokens in a list, a question and an answer; only
# common words keep it. Digits stand alone. Punctuation takes the spaces around it along.
PIECES = (
    rf" (?:{COMMON})(?![\w.])| (?:b|ball|room|gripper)(?=\d)|\d|[^\W\d_]+(?:-[^\W\d_]+)?"
    r"| ?(?:[^\w\s]|_)+(?: (?:[^\w\s]|_)+)* ?|\n| +|\s"
)
Pair = tuple[str, str]
log = logging.getLogger("train_small_lm")


@dataclass(frozen=True)
class Document:
    """The tokens of a prompt and its answer; the answer begins at ``start``, and all count if ``whole``."""

    tokens: list[int]
    start: int
    whole: bool


def read_data(data: Path, seed: int) -> tuple[dict[str, list[Pair]], dict[str, list[Pair]]]:
    """(prompt, answer) pairs by task: for training, and about a fiftieth (at most 300 a task) held out, chosen by prompt."""
    rng = random.Random(seed)
    groups = small_lm_requests.function_calls(data, rng)
    groups = {f"calls/{name}": pairs for name, pairs in groups.items()}
    groups |= {
        "sql/spider": list(small_lm_text.spider(data / "spider", rng)),
        "sql/wikisql": list(small_lm_text.wikisql(data / "wikisql", rng)),
        "commongen": list(small_lm_text.commongen(data / "commongen")),
        "captions": list(small_lm_text.captions(data / "coco_captions", data / "commongen", rng)),
        "text/tatoeba": list(small_lm_text.tatoeba(data / "tatoeba_en")),
        "text/stories": list(small_lm_text.stories(data / "tinystories", rng, 4000)),
        "molecules": list(small_lm_text.molecules(data / "smiles", rng, 16000)),
        "goals/planetarium": 3 * list(small_lm_goals.planetarium(data / "planetarium")),
        "goals/own": list(small_lm_goals.goals(rng, 13000)),
    }
    train: dict[str, list[Pair]] = {}
    held_out: dict[str, list[Pair]] = {}
    for name, pairs in groups.items():
        # what is said, not the list before it: copies of one request stay on one side
        chosen = {
            key for key in {said(pair) for pair in pairs} if random.Random(f"held out|{key}").random() < 0.02
        }
        train[name] = [pair for pair in pairs if said(pair) not in chosen]
        held_out[name] = [pair for pair in pairs if said(pair) in chosen][:300]
    return train, held_out


def said(pair: Pair) -> str:
    """What makes a pair one of its own: the user's words, the question, the concepts or the text."""
    prompt, answer = pair
    for mark in ("\nUser: ", "\nQuestion: "):
        if mark in prompt:
            return prompt.split(mark)[1].rsplit("\n", 2)[0]
    return prompt or answer


def train_tokenizer(texts: Iterator[str]) -> PreTrainedTokenizerFast:
    """A byte-level BPE within the pieces of :data:`PIECES`; every text is some sequence of tokens."""
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        texts,
        BpeTrainer(
            vocab_size=VOCABULARY,
            special_tokens=["<s>", "</s>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", BOS)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        eos_token="</s>",
        model_max_length=CONTEXT,
        clean_up_tokenization_spaces=False,
    )


def encode(tokenizer: PreTrainedTokenizerFast, pairs: Sequence[Pair], whole: bool) -> list[Document]:
    """Documents of at most LONGEST + 1 tokens; longer ones are left out."""
    if not pairs:
        return []
    prompts = tokenizer([prompt for prompt, _ in pairs], add_special_tokens=False).input_ids
    answers = tokenizer([answer for _, answer in pairs], add_special_tokens=False).input_ids
    found = [
        Document([BOS, *prompt, *answer, EOS], 1 + len(prompt), whole)
        for prompt, answer in zip(prompts, answers, strict=True)
    ]
    return [document for document in found if len(document.tokens) <= LONGEST + 1]


def pack(documents: Sequence[Document]) -> Tensor:
    """Documents as rows of one tensor: number of tokens, start, whether all count, and the tokens, one after the other."""
    return torch.tensor(
        [n for one in documents for n in (len(one.tokens), one.start, one.whole, *one.tokens)],
        dtype=torch.int16,
    )


def unpack(packed: Tensor) -> list[Document]:
    """What :func:`pack` has packed."""
    flat, at, found = packed.tolist(), 0, []
    while at < len(flat):
        size, start, whole = flat[at : at + 3]
        found.append(Document(flat[at + 3 : at + 3 + size], start, bool(whole)))
        at += 3 + size
    return found


def prepare(
    args: argparse.Namespace,
) -> tuple[PreTrainedTokenizerFast, list[Document], dict[str, list[Document]]]:
    """(tokenizer, training documents, held-out documents by task), made once and kept in ``--work``."""
    folder, store = args.work / "tokenizer", args.work / "documents.safetensors"
    if not store.exists():
        train_pairs, held_out = read_data(args.data, args.seed)
        if not folder.exists():
            draw = random.Random(args.seed)
            some = [
                pair for pairs in train_pairs.values() for pair in draw.sample(pairs, min(len(pairs), 6000))
            ]
            train_tokenizer(text for pair in some for text in pair).save_pretrained(folder)
        tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
        packed = {}
        for name, pairs in train_pairs.items():
            documents = encode(tokenizer, pairs, whole=name == "molecules")
            packed[f"train.{name}"] = pack(documents)
            packed[f"test.{name}"] = pack(encode(tokenizer, held_out[name], whole=False))
            size = sum(len(one.tokens) for one in documents)
            log.info("%s: %d of %d documents, %d tokens", name, len(documents), len(pairs), size)
        save_file(packed, store.with_suffix(".tmp"))
        os.replace(store.with_suffix(".tmp"), store)
    packed = load_file(store)
    train_documents = [one for name in packed if name.startswith("train.") for one in unpack(packed[name])]
    log.info("%d tokens an epoch", sum(len(one.tokens) for one in train_documents))
    tests = {name.removeprefix("test."): unpack(packed[name]) for name in packed if name.startswith("test.")}
    return PreTrainedTokenizerFast.from_pretrained(folder), train_documents, tests


def batches(documents: Sequence[Document], tokens: int, rng: random.Random | None) -> list[list[Document]]:
    """Documents of like length together, about `tokens` a batch with padding, in random order with `rng`."""
    shelves: dict[int, list[Document]] = {width: [] for width in WIDTHS}
    for document in documents:
        shelves[next(width for width in WIDTHS if len(document.tokens) - 1 <= width)].append(document)
    found = []
    for width, shelf in shelves.items():
        if rng is not None:
            rng.shuffle(shelf)
        rows = max(1, tokens // width)
        found += [shelf[start : start + rows] for start in range(0, len(shelf), rows)]
    if rng is not None:
        rng.shuffle(found)
    return found


def tensors(batch: Sequence[Document], rng: random.Random | None) -> tuple[Tensor, Tensor]:
    """(inputs, targets) of a batch, each (batch, width). A target of -100 does not count: padding, and most of a prompt
    (all of it without `rng`)."""
    longest = max(len(document.tokens) for document in batch) - 1
    width = next(width for width in WIDTHS if longest <= width)
    inputs, targets = torch.full((len(batch), width), EOS), torch.full((len(batch), width), -100)
    for row, document in enumerate(batch):
        size = len(document.tokens) - 1
        inputs[row, :size] = torch.tensor(document.tokens[:-1])
        targets[row, :size] = torch.tensor(document.tokens[1:])
        if not (document.whole and rng is not None):
            share = PROMPT_SHARE if rng is not None else 0.0
            hidden = [at for at in range(document.start - 1) if rng is None or rng.random() >= share]
            targets[row, hidden] = -100
    return inputs, targets


def build_model(seed: int, width: int = 256, layers: int = 4) -> LlamaForCausalLM:
    torch.manual_seed(seed)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=width,
            intermediate_size=11 * width // 4,
            num_hidden_layers=layers,
            num_attention_heads=width // 64,
            num_key_value_heads=width // 64,
            max_position_embeddings=CONTEXT,
            rms_norm_eps=1e-5,
            initializer_range=0.03,
            tie_word_embeddings=True,
            bos_token_id=BOS,
            eos_token_id=EOS,
        )
    )


def total_loss(body: nn.Module, embedding: Tensor, inputs: Tensor, targets: Tensor) -> Tensor:
    """Sum of -log p over the targets that count, in nats; logits are computed at these only."""
    hidden = body(input_ids=inputs, use_cache=False).last_hidden_state.flatten(0, 1)
    where = (targets.flatten() != -100).nonzero().squeeze(1)
    logits = hidden.index_select(0, where) @ embedding.T
    return nn.functional.cross_entropy(logits.float(), targets.flatten()[where], reduction="sum")


@dataclass(frozen=True)
class Quality:
    """Of held-out answers: nats for each token (the end is a token), the mean probability of a whole answer, and the share
    that the likeliest tokens spell."""

    nats_per_token: float
    probability: float
    likeliest: float
    answers: int
    tokens: int


@torch.inference_mode()
def evaluate(model: LlamaForCausalLM, documents: Sequence[Document], device: str) -> Quality:
    nats, tokens, probability, likeliest = 0.0, 0, 0.0, 0
    for batch in batches(documents, 4096, None):
        inputs, targets = (one.to(device) for one in tensors(batch, None))
        counted = targets != -100
        log_probs = model(input_ids=inputs, use_cache=False).logits.float().log_softmax(-1)
        found = log_probs.gather(-1, targets.clamp(min=0)[..., None])[..., 0] * counted
        nats -= float(found.sum())
        tokens += int(counted.sum())
        probability += float(found.sum(1).exp().sum())
        likeliest += int(((log_probs.argmax(-1) == targets) | ~counted).all(1).sum())
    number = max(1, len(documents))
    return Quality(nats / max(1, tokens), probability / number, likeliest / number, len(documents), tokens)


def save_model(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """A folder for ``from_pretrained``, in float16."""
    copy = LlamaForCausalLM(model.config)
    copy.load_state_dict({name: value.detach().cpu() for name, value in model.state_dict().items()})
    copy.half().save_pretrained(folder)
    save_tokenizer(tokenizer, folder)


def reduced(model: nn.Module, facts: Sequence[float]) -> list[float]:
    """Sum the gradients and some numbers over the processes, in one exchange; the gradients are then a mean by the first."""
    grads = [p.grad if p.grad is not None else torch.zeros_like(p) for p in model.parameters()]
    flat = torch.cat([*(grad.flatten() for grad in grads), torch.tensor(facts, device=grads[0].device)])
    if dist.is_initialized():
        dist.all_reduce(flat)
    sums = flat[-len(facts) :].tolist()
    for p, grad in zip(
        model.parameters(), flat.split([grad.numel() for grad in grads] + [len(facts)]), strict=False
    ):
        p.grad = grad.view_as(p) / sums[0]
    return sums


def train(
    model: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    documents: Sequence[Document],
    args: argparse.Namespace,
) -> Clock:
    """bf16 autocast, linear warm-up and linear decay to zero; the clock counts work, not time switched off.

    Under torchrun the processes share every batch; rank 0 keeps the time and the files.
    """
    rank, world = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    optimizers = build_optimizers(model, args.lr)
    clock = Clock(args.steps, args.minutes)
    checkpoint = args.work / "checkpoint.safetensors"
    if checkpoint.exists():
        load_checkpoint(checkpoint, model, optimizers, clock)
        log.info("taken up at step %d", clock.step)
    body: nn.Module = torch.compile(model.model, dynamic=True) if args.compile else model.model
    saved = shown = started = time.monotonic()
    seen, epoch, mark, lasted = 0, 0, int(1000 * clock.share()), 0.0
    nats, counted, tokens = 0.0, 0.0, 0.0
    with progress_bar("training", 1000) as advance:
        advance(mark)
        while clock.share() < 1:
            rng = random.Random(f"{args.seed}/{epoch}")
            order = batches(documents, args.batch, rng)
            seen, epoch = seen + len(order), epoch + 1
            for batch in order[len(order) - (seen - clock.step) :] if seen > clock.step else []:
                for optimizer in optimizers:
                    optimizer.zero_grad()
                    for group in optimizer.param_groups:
                        group["lr"] = args.lr * min(1.0, (clock.step + 1) / 100) * (1 - clock.share())
                facts = [0.0, 0.0, 0.0, lasted if rank == 0 else 0.0]
                if mine := batch[rank::world]:
                    draw = random.Random(f"{args.seed}/{clock.step}/{rank}")
                    inputs, targets = (one.to(args.device) for one in tensors(mine, draw))
                    with torch.autocast(args.device.split(":")[0], torch.bfloat16, enabled=args.bf16):
                        loss = total_loss(body, model.lm_head.weight, inputs, targets)
                    loss.backward()
                    facts[:3] = (
                        int((targets != -100).sum()),
                        float(loss.detach()),
                        sum(len(one.tokens) for one in mine),
                    )
                count, total, size, spent = reduced(model, facts)
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                for optimizer in optimizers:
                    optimizer.step()
                nats, counted, tokens = nats + total, counted + count, tokens + size
                clock.step += 1
                clock.spent += spent
                # compiling is not training: a step of more than ten seconds counts as one second
                lasted = time.monotonic() - started
                lasted, started = lasted if lasted < 10 else 1.0, started + lasted
                now = int(1000 * clock.share())
                advance(now - mark)
                mark = now
                if clock.step % args.log_every == 0:
                    speed = tokens / (time.monotonic() - shown)
                    facts_now = (clock.step, epoch, clock.share(), nats / counted, speed)
                    log.info("step %d epoch %d share %.3f loss %.4f, %.0f tokens/s", *facts_now)
                    nats, counted, tokens, shown = 0.0, 0.0, 0.0, time.monotonic()
                if rank == 0 and time.monotonic() - saved > 60 * args.checkpoint_minutes:
                    save_checkpoint(checkpoint, model, optimizers, clock)
                    save_model(model, tokenizer, args.work / "latest")
                    saved = time.monotonic()
                if clock.share() >= 1:
                    break
    if rank == 0:
        save_checkpoint(checkpoint, model, optimizers, clock)
    return clock


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Train the language model that ships in bench/tractile_bench/small_lm."
    )
    parser.add_argument("--data", type=Path, default=shared_folder() / "data", help="folder of the data sets")
    parser.add_argument("--out", type=Path, default=Path("bench/tractile_bench/small_lm"))
    parser.add_argument(
        "--work", type=Path, default=Path("build/small_lm"), help="tokenizer, checkpoint and log"
    )
    parser.add_argument("--minutes", type=float, default=60, help="stop after this much training")
    parser.add_argument("--steps", type=int, default=10**9, help="or after this many steps")
    parser.add_argument("--batch", type=int, default=8192, help="tokens a batch, padding included")
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--threads", type=int, default=2, help="of each process")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu", help="cpu, or cuda")
    parser.add_argument("--bf16", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument(
        "--compile", action=argparse.BooleanOptionalAction, default=True, help="needs a C++ compiler"
    )
    parser.add_argument("--log-every", type=int, default=50)
    parser.add_argument("--checkpoint-minutes", type=float, default=5)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        dist.init_process_group("gloo")
    first = not dist.is_initialized() or dist.get_rank() == 0
    args.work.mkdir(parents=True, exist_ok=True)
    logging.basicConfig(
        level=logging.INFO if first else logging.WARNING,
        format="%(asctime)s %(message)s",
        handlers=[logging.FileHandler(args.work / "train.log"), logging.StreamHandler()],
    )
    if dist.is_initialized() and not first:
        dist.barrier()  # the first process prepares the documents, the others read them
    tokenizer, documents, held_out = prepare(args)
    if dist.is_initialized() and first:
        dist.barrier()
    model = build_model(args.seed, args.width, args.layers).to(args.device)
    log.info("%d parameters", sum(p.numel() for p in model.parameters()))
    clock = train(model, tokenizer, documents, args)
    if not first:
        return
    save_model(model, tokenizer, args.out)
    shipped = LlamaForCausalLM.from_pretrained(args.out).float().eval().to(args.device)
    report: dict[str, object] = {"steps": clock.step, "seconds": clock.spent}
    for name, tests in held_out.items():
        quality = evaluate(shipped, tests, args.device)
        log.info("held-out %s: %s", name, quality)
        report[name] = vars(quality)
    write_atomically(args.work / "report.json", json.dumps(report, indent=2).encode())


if __name__ == "__main__":
    main()
