"""The engines of benchmarks/circuits.py: each gets a problem and says what it can be asked.

*plain torch* is the loop that one would write by hand for the question alone: emissions gathered once, one matrix product and
one division a step. The other engines are used as their documentation shows, and imported only when asked for.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

import tractile as tt
from tractile.layers import Dense

Call = Callable[[], Any]


@dataclass(frozen=True)
class Problem:
    """An HMM, (H,), (H, H) and (H, V), and tokens (B, T)."""

    initial: Tensor
    transition: Tensor
    emission: Tensor
    tokens: Tensor

    @classmethod
    def random(cls, hidden: int, vocab_size: int, length: int, batch: int) -> "Problem":
        hmm = tt.HMM.random(hidden, vocab_size)
        tokens = torch.randint(vocab_size, (batch, length), generator=torch.Generator().manual_seed(0))
        return cls(hmm.initial_probs, *hmm.transition.parameters(), hmm.emission_probs, tokens)

    @property
    def parameters(self) -> tuple[Tensor, Tensor, Tensor]:
        """Initial, transition, emission."""
        return self.initial, self.transition, self.emission

    @property
    def exact(self) -> "Problem":
        """The same in float64."""
        return Problem(*(p.double() for p in self.parameters), self.tokens)

    @property
    def hmm(self) -> tt.HMM:
        """The same as Tractile's."""
        return tt.HMM(self.initial, Dense(self.transition), self.emission)


@dataclass
class Engine:
    """What an engine can be asked; a function may take seconds at its first call."""

    score: Call | None  # -> log p of each sequence, or their sum
    em: Call | None = None
    reached: Call | None = None  # -> log p of all sequences after `em` was called once
    note: str = ""  # on the EM step


@torch.no_grad()
def plain_forward(initial: Tensor, transition: Tensor, emission: Tensor, tokens: Tensor) -> Tensor:
    """log p of each sequence, in place."""
    batch, length = tokens.shape
    steps = emission.T.contiguous().index_select(0, tokens.T.flatten()).view(length, batch, -1)
    scales = steps.new_empty(length, batch, 1)
    message = steps[0].mul_(initial)
    for t in range(length):
        if t:
            message = torch.mul(message @ transition, steps[t], out=steps[t])
        torch.sum(message, 1, keepdim=True, out=scales[t])
        message.div_(scales[t])
    return scales.log().sum((0, 2))


def plain_em(initial: Tensor, transition: Tensor, emission: Tensor, tokens: Tensor) -> list[Tensor]:
    """The parameters after one step: expected counts are parameter × derivative, by autograd."""
    parameters = [p.clone().requires_grad_() for p in (initial, transition, emission)]
    steps = parameters[2].T[tokens.T]
    message, scales = parameters[0] * steps[0], list[Tensor]()
    for t in range(len(steps)):
        if t:
            message = (message @ parameters[1]) * steps[t]
        scales.append(message.sum(1, keepdim=True))
        message = message / scales[-1]
    gradients = torch.autograd.grad(torch.cat(scales).log().sum(), parameters)
    counts = [p.detach() * g for p, g in zip(parameters, gradients, strict=True)]
    return [c / c.sum(-1, keepdim=True) for c in counts]


def plain_baum_welch(initial: Tensor, transition: Tensor, emission: Tensor, tokens: Tensor) -> list[Tensor]:
    """The same by scaled forward and backward messages, step by step, as one would write it."""
    batch, length = tokens.shape
    alphas, scales = [], []
    message = initial.expand(batch, -1)
    for t in range(length):
        seen = message * emission[:, tokens[:, t]].T
        scales.append(seen.sum(1, keepdim=True))
        alphas.append(seen / scales[-1])
        message = alphas[-1] @ transition
    beta, moves, emits = torch.ones_like(message), torch.zeros_like(transition), torch.zeros_like(emission)
    for t in range(length - 1, -1, -1):
        emits.index_add_(1, tokens[:, t], (alphas[t] * beta).T)
        if t:
            after = beta * emission[:, tokens[:, t]].T / scales[t]
            moves += alphas[t - 1].T @ after
            beta = after @ transition.T
    counts = [(alphas[0] * beta).sum(0), transition * moves, emits]
    return [c / c.sum(-1, keepdim=True) for c in counts]


def plain_partition(a: Problem, b: Problem, length: int) -> Tensor:
    """log Σ_x a(x) b(x): the message is a K × K' matrix, and Σ_x a(x|z) b(x|z') is computed once."""
    both = a.emission @ b.emission.T
    message, scales = a.initial[:, None] * b.initial * both, list[Tensor]()
    for t in range(length):
        if t:
            message = (a.transition.T @ message @ b.transition).mul_(both)
        scales.append(message.sum())
        message = message / scales[-1]
    return torch.stack(scales).log().sum()


def plain(problem: Problem) -> Engine:
    """The loops above."""
    return Engine(
        lambda: plain_forward(*problem.parameters, problem.tokens),
        lambda: plain_em(*problem.parameters, problem.tokens),
        lambda: plain_forward(*plain_em(*problem.parameters, problem.tokens), problem.tokens).sum(),
        "by autograd",
    )


def plain_messages(problem: Problem) -> Engine:
    """An EM step by backward messages instead of autograd."""
    return Engine(
        None,
        lambda: plain_baum_welch(*problem.parameters, problem.tokens),
        lambda: plain_forward(*plain_baum_welch(*problem.parameters, problem.tokens), problem.tokens).sum(),
        "by backward messages",
    )


def tractile(problem: Problem) -> Engine:
    """The generic queries."""
    hmm, tokens = problem.hmm, problem.tokens
    return Engine(
        lambda: tt.log_marginal(hmm, tokens),
        lambda: tt.inference.em_step(hmm, tokens),
        lambda: tt.log_marginal(tt.inference.em_step(hmm, tokens)[0], tokens).sum(),
        "`tt.inference.em_step`",
    )


def pomegranate(problem: Problem) -> Engine:
    """DenseHMM without an explicit end."""
    from pomegranate.distributions import Categorical
    from pomegranate.hmm import DenseHMM

    def model() -> Any:
        emissions = [Categorical(row[None].clone()) for row in problem.emission]
        edges, starts = problem.transition.clone(), problem.initial.clone()
        return DenseHMM(emissions, edges=edges, starts=starts, ends=torch.ones(len(starts)))

    data, hmm, learner = problem.tokens[..., None], model(), model()

    def step() -> None:
        learner.summarize(data)
        learner.from_summaries()

    return Engine(
        lambda: hmm.log_probability(data),
        step,
        lambda: learner.log_probability(data).sum(),
        "learns ends too: another model",
    )


def hmmlearn(problem: Problem) -> Engine:
    """CategoricalHMM, float64, "scaling"."""
    from hmmlearn.hmm import CategoricalHMM

    logging.getLogger("hmmlearn").setLevel(logging.ERROR)  # it warns of more parameters than data
    batch, length = problem.tokens.shape
    column, lengths = problem.tokens.reshape(-1, 1).numpy(), [length] * batch

    def model() -> Any:
        hmm = CategoricalHMM(
            len(problem.initial), n_features=problem.emission.shape[1], n_iter=1, init_params="",
            implementation="scaling", startprob_prior=1.0, transmat_prior=1.0, emissionprob_prior=1.0,
        )  # fmt: skip
        rows = [p.double() / p.double().sum(-1, keepdim=True) for p in problem.parameters]
        hmm.startprob_, hmm.transmat_, hmm.emissionprob_ = (p.numpy() for p in rows)
        return hmm

    hmm = model()
    return Engine(
        lambda: hmm.score(column, lengths),
        lambda: model().fit(column, lengths),
        lambda: model().fit(column, lengths).score(column, lengths),
        "float64",
    )


def dynamax(problem: Problem) -> Engine:
    """CategoricalHMM, jitted and mapped over sequences."""
    import jax
    import jax.numpy as jnp
    from dynamax.hidden_markov_model import CategoricalHMM

    hidden, vocab_size = problem.emission.shape
    # Priors of 1 make it EM; the mode of its Dirichlet is nan for a token that is never seen unless slightly above.
    hmm = CategoricalHMM(
        hidden, 1, vocab_size, initial_probs_concentration=1.0, transition_matrix_concentration=1.0,
        emission_prior_concentration=1.0 + 1e-6,
    )  # fmt: skip
    initial, transition, emission = (jnp.asarray(p.numpy()) for p in problem.parameters)
    start, properties = hmm.initialize(
        initial_probs=initial, transition_matrix=transition, emission_probs=emission[:, None]
    )
    tokens = jnp.asarray(problem.tokens.numpy())[..., None]
    log_p = jax.jit(lambda params: jax.vmap(partial(hmm.marginal_log_prob, params))(tokens))

    @jax.jit
    def step(params: Any) -> Any:
        statistics, _ = jax.vmap(partial(hmm.e_step, params))(tokens)
        return hmm.m_step(params, properties, statistics, hmm.initialize_m_step_state(params, properties))[0]

    return Engine(
        lambda: np.asarray(log_p(start)),
        lambda: jax.block_until_ready(step(start)),
        lambda: np.asarray(log_p(step(start))).sum(),
    )


def dynamax_filter(problem: Problem) -> Engine:
    """Its filter alone, given emissions gathered beforehand: its model computes those of all V tokens."""
    import jax
    import jax.numpy as jnp
    from dynamax.hidden_markov_model import hmm_filter

    initial, transition, emission = (jnp.asarray(p.numpy()) for p in problem.parameters)
    tokens = jnp.asarray(problem.tokens.numpy())

    @jax.jit
    def log_p(initial: Any, transition: Any, emission: Any) -> Any:
        steps = jnp.log(emission).T[tokens]
        return jax.vmap(lambda step: hmm_filter(initial, transition, step).marginal_loglik)(steps)

    return Engine(lambda: np.asarray(log_p(initial, transition, emission)))


def cirkit_chain(problem: Problem, length: int, tied: bool) -> Any:
    """The HMM as a symbolic circuit of theirs: `tied`, one table for all steps, otherwise a copy for each."""
    from cirkit.symbolic.circuit import Circuit
    from cirkit.symbolic.initializers import ConstantTensorInitializer
    from cirkit.symbolic.layers import CategoricalLayer, HadamardLayer, SumLayer
    from cirkit.symbolic.parameters import Parameter, TensorParameter
    from cirkit.utils.scope import Scope

    hidden, vocab_size = problem.emission.shape
    layers: list[Any] = []
    below: dict[Any, list[Any]] = {}
    first: dict[int, Any] = {}

    def add(layer: Any, *children: Any) -> Any:
        layers.append(layer)
        if children:
            below[layer] = list(children)
        return layer

    def table(weight: Tensor) -> Any:
        if tied and id(weight) in first:
            return first[id(weight)].ref()
        leaf = TensorParameter(*weight.shape, initializer=ConstantTensorInitializer(weight.numpy()))
        first[id(weight)] = Parameter.from_input(leaf)
        return first[id(weight)]

    def seen(t: int) -> Any:
        table_t = table(problem.emission)
        return add(CategoricalLayer(Scope([t]), hidden, num_categories=vocab_size, probs=table_t))

    node = seen(length - 1)
    for t in reversed(range(length - 1)):
        ahead = add(SumLayer(hidden, hidden, weight=table(problem.transition)), node)
        node = add(HadamardLayer(hidden, 2), seen(t), ahead)
    root = add(SumLayer(hidden, 1, weight=table(problem.initial[None])), node)
    return Circuit(layers, below, [root])


def cirkit(problem: Problem, tied: bool) -> Engine:
    """Tied tables compile with fold=False alone; untied ones are folded, the faster of its ways."""
    from cirkit.backend.torch.em_optimizer import EM
    from cirkit.pipeline import PipelineContext

    def compiled() -> Any:
        context = PipelineContext(backend="torch", semiring="lse-sum", fold=not tied, optimize=True)
        return context.compile(cirkit_chain(problem, problem.tokens.shape[1], tied))

    circuit, learner = compiled(), compiled()
    optimiser = None if tied else EM(learner, lr=1.0, pseudocount=0.0)

    @torch.no_grad()
    def score() -> Tensor:
        return circuit(problem.tokens).flatten()

    def step() -> None:
        learner.zero_grad()
        learner(problem.tokens).sum().backward()
        if optimiser is not None:
            optimiser.step()

    note = "forward and backward only" if tied else "T tables instead of one: another model"
    return Engine(score, step, None, note)


def cirkit_partition(a: Problem, b: Problem, length: int) -> Call:
    """integrate(multiply(a, b)), compiled."""
    import cirkit.symbolic.functional as functional
    from cirkit.pipeline import PipelineContext

    with PipelineContext(backend="torch", semiring="lse-sum", fold=False, optimize=True) as context:
        chains = [cirkit_chain(p, length, tied=True) for p in (a, b)]
        circuit = context.compile(functional.integrate(functional.multiply(*chains)))

    @torch.no_grad()
    def value() -> Tensor:
        return circuit().flatten()

    return value


ENGINES: dict[
    str, tuple[str, Callable[[Problem], Engine]]
] = {  # name -> (distribution that it needs, its functions)
    "tractile": ("torch", tractile),
    "plain torch": ("torch", plain),
    "plain torch, messages": ("torch", plain_messages),
    "pomegranate": ("pomegranate", pomegranate),
    "cirkit, tied": ("libcirkit", partial(cirkit, tied=True)),
    "cirkit, untied": ("libcirkit", partial(cirkit, tied=False)),
    "hmmlearn": ("hmmlearn", hmmlearn),
    "dynamax": ("dynamax", dynamax),
    "dynamax, filter": ("dynamax", dynamax_filter),
}
