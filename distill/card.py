"""Model cards for distilled HMMs: data, training and measured quality."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

from .manifest import Manifest
from .tensor_file import tensor_shapes

TEXT = """---
library_name: tractile
tags: [hidden-markov-model, probabilistic-circuit, controlled-generation]
---

# A hidden Markov model distilled from {source}

It stands for the language model in Tractile's P-GCD: how likely a continuation is to satisfy a constraint is exact for it.

```python
hmm = tt.HMM.from_pretrained("path/of/this/folder")
tt.smc(lm, prompt, automaton, proposal="pgcd", hmm=hmm)
```

| | |
| --- | --- |
| hidden states | {hidden:,}, {transition} transition |
| vocabulary | {vocab_size:,} tokens; end of sequence {eos_token_id} |
| parameters | {parameters:,} |

## Data

| | |
| --- | --- |
| source | {source} |
| fingerprint of the vocabulary | {vocabulary} |
| sequences | {sequences:,}, of up to {max_new_tokens} tokens: {tokens:,} tokens |
| prompts | {prompts} |
| seed | {corpus_seed} |

## Training

Mini-batch EM, {epochs} epochs of steps of {batch_size:,} sequences, the step size falling from {step_size:g} to 0; pseudocount
{pseudocount:g}, token dropout {token_dropout:g}, messages in {messages}, seed {seed}; {floor:g} of the uniform
distribution mixed into each row at the end. {pace}

## Measured

{measured}

## Limits

An HMM reads no prompt: it stands for continuations of the prompts it was distilled on, of the lengths it was distilled on.
Where it is wrong the sampler stays exact and needs more particles.
"""


def model_card(
    folder: Path, manifest: Manifest, settings: Mapping[str, Any], log: Sequence[Mapping[str, Any]]
) -> str:
    """Write the model card (``README.md``) of the HMM in a folder from the corpus's manifest, the run's settings and its log."""
    tested = [line for line in log if "held_out" in line]
    measured = "No epoch was measured."
    if tested:
        rows = "\n".join(
            f"| {line['epoch']} | {line['nats_per_token']:.4f} | {line['held_out']:.4f} |" for line in tested
        )
        measured = (
            f"Nats per token; held out: {settings['held_out']:.1%} of the sequences. `tractile distill eval` compares with "
            f"the language model.\n\n| epoch | last batch | held out |\n| --- | --- | --- |\n{rows}"
        )
    pace = "No log of the steps was kept."
    if log:
        speed = statistics.median(line["tokens_per_second"] for line in log)
        pace = f"{len(log):,} steps took {log[-1]['seconds']:,.0f} seconds, at {speed:,.0f} tokens a second (median)."
    shapes = tensor_shapes(folder / "model.safetensors")
    weights = {name: shape for name, shape in shapes.items() if name not in ("class_of", "share")}
    transition = "dense"
    if settings["transition"] != "dense":
        transition = f"Monarch ({' × '.join(map(str, shapes['transition.0'][:-1]))})"
    vocabulary, prompts = manifest.vocabulary_fingerprint, len(manifest.prompts)
    told = {
        "source": manifest.model or "a text corpus",
        "vocabulary": f"`{vocabulary[:16]}…`" if vocabulary else "not known",
        "transition": transition,
        "vocab_size": manifest.vocab_size,
        "eos_token_id": manifest.eos_token_id,
        "parameters": sum(map(prod, weights.values())),
        "max_new_tokens": manifest.max_new_tokens,
        "prompts": "none: existing text" if manifest.text else f"{prompts:,}",
        "corpus_seed": manifest.seed,
        "pace": pace,
        "messages": settings["messages"] or "the HMM's own precision",
        "measured": measured,
    }
    return TEXT.format_map({**settings, **told})
