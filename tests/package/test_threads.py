"""Small models use one thread of torch: parallel operations of microseconds wait for threads that have no core."""

import threading
from contextlib import contextmanager

import networks
import pytest
import torch
from counting import HANGS

import tractile as tt
import tractile.distill
from tractile.inference import threads
from tractile.inference.next_token.pgcd import PGCDQuery
from tractile.inference.smc import LookaheadProposal, importance_sampling

VOCAB = tt.Vocabulary([None, b"a", b"b", b"ab"], eos_token_id=0)
FA = tt.constraints.regex("[ab]{1,4}").compile(VOCAB)
HMM = tt.HMM.random(3, 4, seed=0)


@pytest.fixture(autouse=True)
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    assert torch.get_num_threads() == 2, "the number of threads is restored"
    torch.set_num_threads(before)


@pytest.fixture
def network():
    """A model whose operations are too small to be shared out, whatever the number of threads."""
    return networks.llama(4, networks.TINY)


@contextmanager
def threads_of(network):
    """Collect the numbers of threads with which the network is evaluated."""
    seen = set()
    hook = network.register_forward_hook(lambda *_: seen.add(torch.get_num_threads()))
    yield seen
    hook.remove()


def ask(network, **settings):
    lm = tt.TransformersLM(network, None, eos_token_id=0)
    return tt.smc(lm, [1], FA, particles=2, max_new_tokens=4, **settings)


@pytest.mark.parametrize(
    "settings",
    [{}, {"hmm": HMM, "proposal": LookaheadProposal(1.0)}, {"hmm": HMM}],
    ids=["gcd", "pgcd", "pilot"],
)
def test_small_models_use_one_thread(network, settings):
    with threads_of(network) as seen:
        ask(network, **settings)
    assert seen == {1}


def test_other_ways_to_generate(network):
    lm = tt.TransformersLM(network, None, eos_token_id=0)
    constraint = tt.constraints.OutputType(tt.constraints.regex("[ab]{1,4}"), str)
    with threads_of(network) as seen:
        for method in ("gcd", "awrs"):
            tt.generate(lm, VOCAB, [1], constraint, particles=2, max_new_tokens=6, method=method)
        importance_sampling(lm, [1], FA, particles=2, max_new_tokens=4)
        tt.decoding.beam_search(lm, [1], FA, 4, beams=2, hmm=HMM)
        tt.decoding.beam_search(lm, [1], FA, 4, beams=2)
        tt.decoding.speculative(lm, [1], FA, HMM, particles=2, max_new_tokens=4)
    assert seen == {1}


def test_the_logits_processor_reads_a_small_hmm_with_one_thread(network, monkeypatch):
    """The model's own threads are not its business."""
    seen = set()
    advance = PGCDQuery.log_lookahead
    monkeypatch.setattr(
        PGCDQuery, "log_lookahead", lambda self: (seen.add(torch.get_num_threads()), advance(self))[1]
    )
    processor = tt.ConstraintLogitsProcessor(FA, HMM, max_new_tokens=4)
    processor(torch.tensor([[1]]), torch.zeros(1, 4))
    assert seen == {1}
    monkeypatch.setattr(threads, "SMALL", 10)
    processor.reset()
    processor(torch.tensor([[1]]), torch.zeros(1, 4))
    assert seen == {1, 2}


def test_larger_models_and_hmms_keep_the_threads(network, monkeypatch):
    monkeypatch.setattr(threads, "SMALL", sum(p.numel() for p in HMM.parameters()))
    with threads_of(network) as seen:  # of some hundred parameters
        ask(network)
    assert seen == {2}
    count = sum(p.numel() for p in network.parameters())
    monkeypatch.setattr(threads, "SMALL", count)
    for hidden, used in ((3, 1), (40, 2)):
        with threads_of(network) as seen:
            ask(network, hmm=tt.HMM.random(hidden, 4, seed=0), proposal=LookaheadProposal(1.0))
        assert seen == {used}


def test_a_potential_of_the_user_keeps_the_threads(network):
    """The model has one thread meanwhile."""
    for sampler in (tt.smc, tt.inference.smc.importance_sampling):
        seen, lm = set(), tt.TransformersLM(network, None, eos_token_id=0)
        with threads_of(network) as used:
            sampler(
                lm, [1], FA, particles=2, max_new_tokens=4,
                potential=lambda text: seen.add(torch.get_num_threads()) or 1.0,  # noqa: B023
            )  # fmt: skip
        assert seen == {2}
        assert used == {1}


def test_chains_moves_and_corpora_of_small_models_use_one_thread(network, tmp_path):
    lm = tt.TransformersLM(network, None, eos_token_id=0)
    with threads_of(network) as seen:
        tt.inference.smc.mcmc(lm, [1], FA, samples=2, chains=2, burn_in=1, max_new_tokens=4)
        tt.inference.smc.resample_move(lm, [1], FA, particles=2, max_new_tokens=4)
        corpus = tt.distill.sample(lm, tmp_path / "corpus", 4, 3, [[1]])
    assert seen == {1}
    for hidden, used in ((128, 1), (129, 2)):
        start = lambda: seen.add(torch.get_num_threads()) or tt.HMM.random(hidden, 4)  # noqa: B023, E731
        seen.clear()
        tt.distill.train(corpus, hidden, epochs=1, initial=start, held_out=0)
        assert seen == {used}


def test_the_number_is_restored_after_an_error_and_never_raised(network):
    with pytest.raises(tt.errors.BudgetTooSmall):
        tt.smc(tt.TransformersLM(network, None, eos_token_id=0), [1], FA, max_new_tokens=1)
    assert torch.get_num_threads() == 2
    torch.set_num_threads(1)
    with threads_of(network) as seen:
        ask(network)
    assert seen == {1} == {torch.get_num_threads()}
    torch.set_num_threads(2)


def test_other_threads_keep_theirs(network):
    """The number belongs to the calling thread: calls that overlap restore what each of them found."""
    found, inside, leave = {}, threading.Event(), threading.Event()

    def run(name, number):
        torch.set_num_threads(number)

        def wait(*_):
            inside.set()
            leave.wait(HANGS)

        hook = network.register_forward_hook(wait)
        try:
            ask(network)
        finally:
            hook.remove()
        found[name] = torch.get_num_threads()

    worker = threading.Thread(target=run, args=("worker", 2))
    worker.start()
    assert inside.wait(HANGS)
    assert torch.get_num_threads() == 2
    leave.set()
    worker.join()
    assert found == {"worker": 2}
