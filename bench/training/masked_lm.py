"""Train a small masked diffusion model, such as the one that ships in ``embedded/masked_lm``.

    loss = − E_{t ~ U(0, 1)} E_{mask each token with probability t} [ (1 / t) Σ_{i masked} log p(x_i | the tokens left) ]  (nats)

the negative evidence bound of masked diffusion (Sahoo et al. 2024; Nie et al. 2025). A row is a passage of a few sentences (or a
molecule), its end token, and end tokens up to ``LENGTH``, as LLaDA pads.

    python bench/training/masked_lm.py --corpus ../shared/data/tinystories --out embedded/masked_lm
    python bench/training/masked_lm.py --corpus ../shared/data/smiles --out out/molecules

The rows are kept in ``OUT/rows.npy``, so that another machine can train without the corpus. A minute on a GPU; an hour on a core.
"""

from __future__ import annotations

import argparse
import io
import random
import re
from pathlib import Path

import numpy as np
import torch
from transformers import AutoTokenizer, BertConfig, BertForMaskedLM

LENGTH = 64  # tokens of a row
SENTENCE_END = re.compile(r"(?<=[.!?\"])\s+(?=[A-Z\"])")
TOKENIZER = Path(__file__).resolve().parents[2] / "embedded" / "lm"


def passages(folder: Path, seed: int) -> list[str]:
    """Read lines of molecules, or stories cut into one to four sentences."""
    import zstandard

    draw, found = random.Random(seed), list[str]()
    for path in sorted(folder.glob("*.zst")):
        with path.open("rb") as file:
            text = io.TextIOWrapper(zstandard.ZstdDecompressor().stream_reader(file), encoding="utf-8").read()
        if path.name.endswith(".smi.zst"):
            found += text.split()
            continue
        for story in re.split(r"<\|endoftext\|>|\n\n", text):
            parts = SENTENCE_END.split(" ".join(story.split()))
            while parts:
                count = draw.choice((1, 2, 2, 3, 4))
                found.append(" ".join(parts[:count]))
                parts = parts[count:]
    draw.shuffle(found)
    return found


def rows(folder: Path, tokenizer: AutoTokenizer, seed: int) -> np.ndarray:
    """Encode the passages that fit, without a first token, filled with the end token."""
    found = []
    texts = passages(folder, seed)
    for start in range(0, len(texts), 10_000):
        for ids in tokenizer(texts[start : start + 10_000], add_special_tokens=False).input_ids:
            if 2 < len(ids) < LENGTH:
                found.append(ids + [tokenizer.eos_token_id] * (LENGTH - len(ids)))
    return np.array(found, np.int16)


def loss_of(model: BertForMaskedLM, batch: torch.Tensor, mask: int, draw: torch.Generator) -> torch.Tensor:
    """Return the bound in nats a token; the masking times of a batch are spaced evenly."""
    size = len(batch)
    shift = torch.rand(1, generator=draw, device=batch.device)
    t = ((torch.arange(size, device=batch.device) / size + shift) % 1).clamp(min=1 / LENGTH)[:, None]
    hidden = torch.rand(batch.shape, generator=draw, device=batch.device) < t
    logits = model(torch.where(hidden, mask, batch)).logits.float()
    logits[..., mask] = -torch.inf
    nats = torch.nn.functional.cross_entropy(logits.transpose(1, 2), batch, reduction="none")
    return (nats * hidden / t).mean()


def train(data: np.ndarray, model: BertForMaskedLM, mask: int, steps: int, batch: int, seed: int) -> float:
    """Train in place; return the bound on held-out rows, one of 50, in nats a token."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    everything = torch.from_numpy(data.astype(np.int64)).to(device)
    held, kept = everything[::50], everything[torch.arange(len(everything)) % 50 > 0]
    model.to(device).train()
    draw = torch.Generator(device).manual_seed(seed)
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.98), weight_decay=0.02)
    rate = torch.optim.lr_scheduler.OneCycleLR(optimiser, 3e-3, total_steps=steps, pct_start=0.05)
    for step in range(steps):
        chosen = kept[torch.randint(len(kept), (batch,), generator=draw, device=device)]
        with torch.autocast(device.type, torch.bfloat16):
            loss = loss_of(model, chosen, mask, draw)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        rate.step()
        optimiser.zero_grad()
        if step % 500 == 0 or step + 1 == steps:
            print(f"step {step}: {float(loss):.3f} nats a token", flush=True)
    model.eval()
    with torch.no_grad():
        return float(np.mean([float(loss_of(model, part, mask, draw)) for part in held.split(256)[:20] * 4]))


def main() -> None:
    """Encode, train and write one model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, default=TOKENIZER)
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rows-only", action="store_true")
    given = parser.parse_args()
    torch.manual_seed(given.seed)
    tokenizer = AutoTokenizer.from_pretrained(given.tokenizer)
    tokenizer.add_special_tokens({"mask_token": "<mask>"})
    given.out.mkdir(parents=True, exist_ok=True)
    kept = given.out / "rows.npy"
    data = np.load(kept) if kept.exists() else rows(given.corpus, tokenizer, given.seed)
    np.save(kept, data)
    print(f"{len(data):,} rows, {(data != tokenizer.eos_token_id).sum():,} tokens of text")
    if given.rows_only:
        return
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=96,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=224,
        max_position_embeddings=LENGTH,
        type_vocab_size=1,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        pad_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
    )
    model = BertForMaskedLM(config)
    bound = train(data, model, tokenizer.mask_token_id, given.steps, given.batch, given.seed)
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters; held out: {bound:.3f} nats a token")
    model.cpu().half().save_pretrained(given.out)
    tokenizer.save_pretrained(given.out)


if __name__ == "__main__":
    main()
