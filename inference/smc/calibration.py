"""Finding the strength of the lookahead by a pilot, for a language model, an HMM and a constraint.

The pilot is two runs of four particles for each of :data:`.STRENGTHS`, on random numbers of its own, in one batch of the language
model: as many passes as the budget has tokens, of 40 rows. Single particles vary more, so a request for one has a pilot of
three rounds by successive halving (Karnin, Koren and Somekh 2013): 8 runs of each strength, 8 more of the best three, 16 more of
the best two, three times as many passes of at most 40 rows. The strength with the largest mean log Ẑ, and weights that vary
little, is kept (:meth:`.Strength.settle`): E[log Ẑ] is log Z minus a bound on the divergence of the samples (Loula et al. 2025,
Appendix D.1). It does not depend on a run's own random numbers, so E[Ẑ] = Z. A request with an equal prompt, constraint, HMM,
model and budget finds it again; what else was asked before changes nothing.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Hashable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from ...circuits.automaton import Automaton
from ...circuits.chain import Chain
from ...errors import EvidenceError
from ..next_token.product_tables import kept
from .loop import run_requests
from .posterior import Posterior
from .proposals import GCDProposal, LookaheadProposal, Proposal
from .request import Request
from .resampling import systematic
from .strength import STRENGTHS, Strength, best, scores

PARTICLES, RUNS = 4, 2  # of each strength
ROUNDS = (8, 3), (16, 2), (32, 1)
"""The rounds of a pilot for one particle: the runs of each strength up to its end, and the number of strengths kept after it."""
PROMPTS = 8  # of a class of requests, at most
KEPT = 256  # strengths of a language model, at most
SEED = 0x5EED
SAMPLED = 4096  # numbers of each parameter of an HMM that its name depends on

_kept: weakref.WeakKeyDictionary[object, dict[Hashable, Strength]] = weakref.WeakKeyDictionary()


def settle(requests: Sequence[Request]) -> None:
    """Set the strength of each request's lookahead that has none, from an earlier pilot or a new one.

    Raises :class:`EvidenceError` if such a request has no HMM.
    """
    pilots: dict[int, Pilot] = {}
    waiting: list[tuple[Request, LookaheadProposal]] = []
    for request in requests:
        proposal = request.proposal
        if not isinstance(proposal, LookaheadProposal):
            continue
        if not isinstance(wanted := proposal.strength, str | Strength):
            continue
        if request.hmm is None:
            raise EvidenceError(f"{type(proposal).__name__} needs hmm=…")
        request.strength = wanted if isinstance(wanted, Strength) else _found(request)
        waiting.append((request, proposal))
        if request.strength.value is None:
            pilot = pilots.setdefault(id(request.strength), Pilot(request.strength, request.particles, []))
            if len(pilot.requests) < (PROMPTS if wanted is request.strength else 1):
                pilot.requests.append(request)
    if pilots:
        _run(list(pilots.values()))
    # one object for all requests, whose potential is evaluated once
    made: dict[tuple[int, Strength], Proposal] = {}
    for request, proposal in waiting:
        assert request.strength is not None
        value = request.strength.value
        assert value is not None
        key = id(proposal), request.strength
        if key not in made:
            temperature = proposal.temperature
            made[key] = LookaheadProposal(value, temperature) if value else GCDProposal(temperature)
        request.proposal = made[key]


class Pilot:
    """The runs that find one strength, on the prompts of some requests.

    ``runs[i][s]`` has the log-weights of the particles of each run of request i with strength s.
    """

    def __init__(self, strength: Strength, particles: int, requests: list[Request]) -> None:
        self.strength, self.requests = strength, requests
        self.particles = 1 if particles == 1 else PARTICLES
        self.rounds = ROUNDS if particles == 1 else ((RUNS, 1),)
        self.among: Sequence[float] = STRENGTHS
        self.runs: list[dict[float, list[Tensor]]] = []

    def asked(self, turn: int) -> list[Request]:
        """Return the requests of a round: independent runs of each strength that is left, without the requests' potentials."""
        guides = {s: LookaheadProposal(s) if s else GCDProposal() for s in self.among}
        runs = [s for s in self.among for _ in range(self._more(turn))]
        return [
            replace(
                request,
                proposal=guides[s],
                potential=None,
                particles=self.particles,
                seed=_stream(SEED + 1000 * turn + i, j),
                resampling=systematic,
                ess_threshold=0.5 if request.ess_threshold else 0.0,
                beam_factor=1,
                align=None,
                strength=None,
            )
            for i, request in enumerate(self.requests)
            for j, s in enumerate(runs)
        ]

    def take(self, turn: int, posteriors: Iterator[Posterior]) -> None:
        """Record the log-weights of the pilot's runs of round ``turn``; after its last round, choose the strength by them."""
        more = self._more(turn)
        self.runs = self.runs or [{s: [] for s in STRENGTHS} for _ in self.requests]
        for runs in self.runs:
            for s in self.among:
                runs[s] += [next(posteriors).log_weights for _ in range(more)]
        if turn + 1 < len(self.rounds):
            self.among = best(scores(self.runs)[0], self.among, self.rounds[turn][1])
        else:
            self.strength.settle(self.runs, self.among if turn else None)

    def _more(self, turn: int) -> int:
        """Return the number of new runs of each strength in a round."""
        return self.rounds[turn][0] - (self.rounds[turn - 1][0] if turn else 0)


def _run(pilots: Sequence[Pilot]) -> None:
    """Run pilots together, round by round."""
    for turn in range(max(len(pilot.rounds) for pilot in pilots)):
        going = [pilot for pilot in pilots if turn < len(pilot.rounds)]
        posteriors = iter(run_requests([request for pilot in going for request in pilot.asked(turn)]))
        for pilot in going:
            pilot.take(turn, posteriors)


def _found(request: Request) -> Strength:
    """Return the strength kept for a request's prompt, model, HMM, constraint and budget, and for one particle or several.

    Without one, a new one."""
    lm, hmm = request.lm, request.hmm
    assert hmm is not None
    key = (
        request.prompt if isinstance(request.prompt, str) else tuple(request.prompt),
        getattr(lm, "temperature", None),
        _automaton_name(request.fa),
        kept(hmm, "digest", lambda: _hmm_name(hmm)),
        request.max_new_tokens,
        request.particles == 1,
        request.ess_threshold > 0,
    )
    strengths: dict[Hashable, Strength] = {}
    with suppress(TypeError):  # a language model without weak references
        strengths = _kept.setdefault(getattr(lm, "model", lm), strengths)
    if key not in strengths and len(strengths) >= KEPT:
        strengths.pop(next(iter(strengths)), None)
    return strengths.setdefault(key, Strength())


def _stream(seed: int, run: int) -> int:
    """Return the seed of a run of a pilot."""
    if not run:
        return seed
    return int.from_bytes(hashlib.sha256(f"{seed}|island {run}".encode()).digest()[:7])


def _automaton_name(fa: Automaton) -> Hashable:
    """Return a key that is the same for equal automata; a lazy automaton has one of its own."""
    name: Hashable = fa.cache.get("name")
    if name is None:
        name = object()
        if fa.lazy is None:
            out = hashlib.sha256(repr((fa.num_states, fa.eos_token_id, fa.start_states)).encode())
            out.update(repr(fa.accept_states).encode())
            for tensor in (fa.transitions, *fa.labels.by_token(torch.device("cpu"))):
                out.update(tensor.contiguous().numpy().tobytes())
            name = out.hexdigest()
        fa.cache["name"] = name
    return name


def _hmm_name(hmm: Chain) -> str:
    """Return a digest of a sample of the parameters, the same for equal HMMs."""
    out = hashlib.sha256()
    for tensor in hmm.parameters():
        flat = tensor.detach().flatten()
        sample = flat[:: max(1, len(flat) // SAMPLED)].double().cpu().numpy()
        out.update(np.ascontiguousarray(sample).tobytes())
    return out.hexdigest()
