"""Public calls with models on an NVIDIA GPU against the same calls on the processor. Skipped, visibly, without one."""

import json

import pytest
import torch

import tractile as tt
from tractile import distill
from tractile.inference.queries.baum_welch import hmm_counts

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
DEVICE = "cuda"
CLOSE = {"rtol": 1e-4, "atol": 1e-4}
DOUBLE = {"rtol": 1e-9, "atol": 1e-9}
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 6}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


def automaton():
    return tt.Automaton.from_edges([(0, [0, 1], 0), (0, 2, 1), (1, [0, 1, 2], 1), (1, 3, 2)], 0, [1, 2], 5)


def models():
    hmm = tt.HMM.random(9, 5, dtype=torch.float64)
    monarch = tt.HMM.random(9, 5, "monarch", dtype=torch.float64)
    return {"dense": hmm, "monarch": monarch, "product": hmm * automaton(), "two HMMs": hmm * monarch}


QUERIES = {
    "log_marginal": lambda m: tt.log_marginal(m, torch.tensor([[0, 1, 2, 0], [1, 1, 2, 0]])),
    "log_marginal of soft evidence": lambda m: tt.log_marginal(m, {1: torch.tensor([0.5, 0.0, 1.0, 2.0, 0.1])}, n=4),
    "conditional": lambda m: tt.conditional(m, {0: 1, 2: [0, 2]}, 1, n=4),
    "marginals": lambda m: torch.stack(list(tt.inference.marginals(m, {2: 2}, n=4).values())),
    "support": lambda m: tt.support(m, {0: 1}, n=4),
    "partition": lambda m: tt.partition(m, n=6),
    "entropy": lambda m: tt.entropy(m, n=4, joint=True),
    "mpe": lambda m: tt.mpe(m, {0: 1}, n=4)[0],
    "mpe, score": lambda m: tt.mpe(m, {0: 1}, n=4)[1],
}  # fmt: skip


def same(a, b, **close):
    a, b = (torch.as_tensor(x).cpu() for x in (a, b))
    torch.testing.assert_close(a, b, check_dtype=False, **close)


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("name", models())
def test_queries(name, query):
    model = models()[name]
    here, there = QUERIES[query](model), QUERIES[query](model.to(DEVICE))
    assert not isinstance(there, torch.Tensor) or there.device.type == DEVICE
    same(there, here, **DOUBLE)


@pytest.mark.parametrize("name", models())
def test_samples_have_the_frequencies_of_the_model(name):
    """Frequencies of 20,000 samples within five standard errors of the marginals (one failure in 10,000 for 20 figures)."""
    model = models()[name].to(DEVICE)
    drawn = tt.sample(model, 20_000, n=4, generator=torch.Generator(DEVICE).manual_seed(0))
    shares = torch.nn.functional.one_hot(drawn.cpu(), 5).double().mean(0)
    truth = torch.stack([p.exp() for p in tt.inference.marginals(model, n=4).values()]).cpu().reshape(4, 5)
    error = (truth * (1 - truth) / 20_000).sqrt()
    assert ((shares - truth).abs() <= 5 * error + 1e-9).all()


@pytest.mark.parametrize("transition", ["dense", "monarch"])
def test_one_step_of_em(transition):
    hmm = tt.HMM.random(9, 7, transition, dtype=torch.float64)
    tokens = torch.randint(0, 7, (20, 12), generator=torch.Generator().manual_seed(0))
    here, there = (
        hmm_counts(model.initial_probs, model.transition, model.emission_probs, tokens.to(model.device))
        for model in (hmm, hmm.to(DEVICE))
    )
    same(there.initial, here.initial, **DOUBLE)
    same(there.emission, here.emission, **DOUBLE)
    same(there.log_likelihood, here.log_likelihood, **DOUBLE)
    for a, b in zip(there.transition, here.transition, strict=True):
        same(a, b, **DOUBLE)


@pytest.fixture(scope="module")
def loaded():
    """(model on the GPU, tokenizer, HMM, automaton of the schema)."""
    model, tokenizer = tt.embedded.load_lm()
    fa = tt.constraints.json_schema(SCHEMA).compile(tt.Vocabulary.from_tokenizer(tokenizer))
    return model.to(DEVICE), tokenizer, tt.embedded.load_hmm(), fa


def valid(text):
    value = json.loads(text)
    return set(value) == {"name", "age"} and len(value["name"]) <= 6


@pytest.mark.parametrize("where", ["cpu", DEVICE])
@pytest.mark.parametrize("proposal", ["lcd", "gcd", "pgcd", "awrs"])
def test_the_sampler(loaded, proposal, where):
    model, tokenizer, hmm, fa = loaded
    post = tt.smc(
        tt.TransformersLM(model, tokenizer), "Tom is", fa, proposal, hmm.to(where), particles=8,
        max_new_tokens=40 if proposal != "lcd" else 200, seed=0,
    )  # fmt: skip
    assert post.log_evidence < 0
    assert valid(post.best.text)


def test_generate_and_beams(loaded):
    model, tokenizer, hmm, fa = loaded
    texts = tt.generate(
        model, tokenizer, ["Tom has a", "It is a"], tt.constraints.any_of(" cat", " dog"),
        max_new_tokens=8, hmm=hmm, samples=3,
    )  # fmt: skip
    assert all(text in (" cat", " dog") for row in texts for text in row)
    beams = tt.decoding.beam_search(tt.TransformersLM(model, tokenizer), "Tom is", fa, 40, beams=4, hmm=hmm)
    assert all(valid(beam.text) for beam in beams)


@pytest.mark.parametrize("guided", [False, True])
def test_the_logits_processor(loaded, guided):
    model, tokenizer, hmm, fa = loaded
    prompts = tokenizer(["Tom is"] * 2, return_tensors="pt", return_token_type_ids=False).to(DEVICE)
    processor = tt.ConstraintLogitsProcessor(fa, hmm.to(DEVICE) if guided else None, max_new_tokens=40)
    ids = model.generate(
        **prompts,
        max_new_tokens=40,
        do_sample=True,
        logits_processor=[processor],
        pad_token_id=tokenizer.eos_token_id,
    )
    for row in ids[:, prompts.input_ids.shape[1] :]:
        assert valid(tokenizer.decode(row, skip_special_tokens=True))


@pytest.mark.parametrize("transition", ["dense", "monarch"])
def test_distillation(loaded, tmp_path, transition):
    """A corpus from the model on the GPU is that of the processor; EM there gives an HMM as good as EM here."""
    model, tokenizer, _, _ = loaded
    lm = tt.TransformersLM(model, tokenizer)
    corpus = distill.sample(lm, tmp_path / "corpus", 256, 12, ["Tom is", "It was"], batch_size=64)
    quality = [
        distill.evaluate(
            distill.train(corpus, 16, transition, epochs=2, batch_size=64, device=device, out=tmp_path / device), corpus
        )
        for device in ("cpu", DEVICE)
    ]  # fmt: skip
    assert abs(quality[0].nats_per_token - quality[1].nats_per_token) < 1e-2


@pytest.mark.parametrize("shard", [False, True])
def test_distillation_by_nccl(tmp_path, shard):
    """A job of one rank, whose tensors go through nccl, and its values through gloo, makes what no job makes."""
    tokens = torch.randint(0, 7, (64, 8), generator=torch.Generator().manual_seed(0))
    corpus = distill.Corpus.of(tokens, 7, 6)
    settings = {"epochs": 2, "batch_size": 16, "device": DEVICE, "dtype": torch.float32}

    def fit(out):
        (distill.train_sharded if shard else distill.train)(corpus, 8, out=out, **settings)
        return tt.HMM.from_pretrained(out)

    alone = fit(tmp_path / "alone")
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("cpu:gloo,cuda:nccl", store=store, rank=0, world_size=1)
    try:
        joined = fit(tmp_path / "joined")
    finally:
        torch.distributed.destroy_process_group()
    same(joined.emission_probs, alone.emission_probs, rtol=0, atol=1e-6)
    same(joined.transition.dense(), alone.transition.dense(), rtol=0, atol=1e-6)


def test_a_recorded_step_runs_beside_a_recorded_product():
    """Both on streams of their own, at the same time, as with a language model: nothing is shared."""
    hmm, fa = (
        tt.HMM.random(64, 4000, seed=0),
        tt.Automaton.from_edges([(0, range(3000), 0), (0, 3000, 1)], 0, [1], 4000),
    )
    exact = tt.pgcd(hmm, fa, 40).start(4)
    query = tt.pgcd(hmm.to(DEVICE), fa, 40).start(4)
    query.capture()
    a, product = torch.randn(4, 4096, device=DEVICE), torch.cuda.CUDAGraph()
    weights = torch.randn(4096, 4096, device=DEVICE)
    torch.cuda.synchronize()
    with torch.cuda.graph(product):
        for _ in range(20):
            b = a @ weights
    product.replay()
    truth, beside = b.clone(), torch.cuda.Stream()
    for tokens in torch.randint(0, 3000, (30, 4), generator=torch.Generator().manual_seed(0)):
        exact.advance(tokens)
        there = tokens.to(DEVICE)
        beside.wait_stream(torch.cuda.current_stream())
        product.replay()
        with torch.cuda.stream(beside):
            query.advance(there)
            found = query.lookahead()
        torch.cuda.synchronize()
        same(found, exact.lookahead(), **CLOSE)
        same(b, truth, **CLOSE)
