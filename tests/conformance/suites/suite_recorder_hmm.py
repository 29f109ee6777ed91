"""Notes what hmmlearn and dynamax answer about hidden Markov models, for tests/conformance/suites/suite_recorder.py.

Whatever the emissions are, a case is the initial distribution (H,), the transitions (H, H), the log likelihood of each
observation under each state (T, H), and an answer: "log_likelihood" (nats), "posterior" (T, H) or "path" (T,).
"""

import functools
import importlib
from typing import Any

import numpy as np


def record(package: str, noted: list[dict[str, Any]]) -> None:
    """Replace the functions that answer by ones that add a case to ``noted`` too."""
    {"hmmlearn": record_hmmlearn, "dynamax": record_dynamax}[package](noted)


def case(suite: str, model: tuple[Any, Any, Any], question: str, answer: Any) -> dict[str, Any]:
    """A case as JSON can hold it."""
    names = ("initial", "transition", "log_likelihoods")
    spec = {name: np.asarray(value, np.float64).tolist() for name, value in zip(names, model, strict=True)}
    answer = np.asarray(answer, np.float64).tolist()
    return {"suite": suite, "kind": "hmm", "spec": spec, "options": {}, "text": question, "accepts": answer}


def record_hmmlearn(noted: list[dict[str, Any]]) -> None:
    """``score``, ``predict_proba`` and ``decode`` of one sequence."""
    base = importlib.import_module("hmmlearn.base")

    def wrap(name: str, questions: tuple[str, ...]) -> None:
        function = getattr(base._AbstractHMM, name)

        @functools.wraps(function)
        def ask(self: Any, sequence: Any, lengths: Any = None, *args: Any, **options: Any) -> Any:
            answer = function(self, sequence, lengths, *args, **options)
            found = answer if isinstance(answer, tuple) else (answer,)
            map_path = name == "decode" and "map" in (*args, options.get("algorithm"), self.algorithm)
            if not type(self).__name__.startswith("Variational") and (lengths is None or len(lengths) == 1):
                model = self.startprob_, self.transmat_, self._compute_log_likelihood(np.asarray(sequence))
                for question, value in zip(questions, found, strict=True):
                    if question and not (map_path and question in ("path", "path_log_probability")):
                        noted.append(case("hmmlearn", model, question, value))
            return answer

        setattr(base._AbstractHMM, name, ask)

    wrap("score", ("log_likelihood",))
    wrap("predict_proba", ("posterior",))
    wrap("score_samples", ("log_likelihood", "posterior"))
    wrap("decode", ("path_log_probability", "path"))


def record_dynamax(noted: list[dict[str, Any]]) -> None:
    """``hmm_filter``, the smoothers and ``hmm_posterior_mode``, one after another or in parallel, of models that do not
    change with time."""

    def wrap(module: Any, name: str, questions: dict[str, str]) -> None:
        function = getattr(module, name)

        @functools.wraps(function)
        def ask(*args: Any, **options: Any) -> Any:
            answer = function(*args, **options)
            try:
                model = tuple(np.asarray(value, np.float64) for value in args[:3])
                for question, field in questions.items():
                    value = np.asarray(getattr(answer, field) if field else answer, np.float64)
                    if model[1].ndim == 2 and len(args) == 3:
                        noted.append(case("dynamax", model, question, value))
            except (TypeError, ValueError, AttributeError):
                pass  # traced values have none
            return answer

        setattr(module, name, ask)

    core = importlib.import_module("dynamax.hidden_markov_model.inference")
    parallel = importlib.import_module("dynamax.hidden_markov_model.parallel_inference")
    smoothed = {"log_likelihood": "marginal_loglik", "posterior": "smoothed_probs"}
    wrap(core, "hmm_filter", {"log_likelihood": "marginal_loglik"})
    wrap(core, "hmm_smoother", smoothed)
    wrap(core, "hmm_two_filter_smoother", smoothed)
    wrap(core, "hmm_posterior_mode", {"path": ""})
    wrap(parallel, "hmm_filter", {"log_likelihood": "marginal_loglik"})
    wrap(parallel, "hmm_smoother", smoothed)
