"""The second model runner's own loader, request slots and contexts, on CPU tensors: all that of it runs without a GPU."""

import numpy as np
import pytest
import torch
from second_runner import LENGTH, SLOTS, Guided, Masks, Runner, V, check_a_return, check_rows

loader = pytest.importorskip("vllm.v1.worker.gpu.sample.logits_processor", reason="vLLM has no second runner")


class Kernel:
    """What vLLM's kernel of staged writes does: row, start and contents of each write."""

    def __getitem__(self, grid):
        def launch(out, stride, rows, starts, contents, ends, groups, **_):
            begin = 0
            for row, start, end in zip(rows.tolist(), starts.tolist(), ends.tolist(), strict=True):
                out[row].view(-1)[start : start + end - begin] = contents[begin:end]
                begin = end

        return launch


@pytest.fixture(autouse=True)
def without_gpu(monkeypatch):
    """No pinned memory and no kernels."""
    from vllm.v1.worker.gpu import buffer_utils

    monkeypatch.setattr(buffer_utils, "is_uva_available", lambda: False)
    monkeypatch.setattr(buffer_utils, "_apply_write_kernel", Kernel())
    monkeypatch.setattr(
        buffer_utils, "async_tensor_h2d", lambda x, device, dtype: torch.tensor(x, dtype=dtype)
    )


class Real(Runner):
    """Slots are vLLM's ``RequestState``, processors come from its loader, steps are its ``LogitsContext``."""

    def slots(self):
        from vllm.v1.worker.gpu.states import RequestState

        return RequestState(SLOTS, LENGTH, LENGTH, 3, V + 3, torch.device("cpu"))

    def built(self, config):
        (processor,) = loader.build_custom_logits_processors(config, self.states, False, [self.adapter])
        self.validate = loader.build_custom_logits_processors_params_validator([self.adapter])
        return processor

    def context(self, **layout):
        return loader.LogitsContext(
            idx_mapping=torch.from_numpy(layout["idx_mapping_np"]),
            pos=torch.zeros(len(layout["input_ids"]), dtype=torch.long),
            seq_lens_upper_bound_np=np.full(len(layout["idx_mapping_np"]), LENGTH),
            **layout,
        )

    def add(self, slot, wish, output=()):
        from vllm import SamplingParams

        prompt = [3] * self.random.randrange(1, 9)
        params = SamplingParams(max_tokens=16, extra_args=wish and {"tractile": wish})
        self.validate(params)
        self.states.free_indices.append(self.states.free_indices.pop(self.states.free_indices.index(slot)))
        self.states.add_request(f"r{slot}", len(prompt), [*prompt, *output], 0, 16)
        assert self.processor.add_request(slot, params) == (wish is not None)
        self.states.apply_staged_writes()
        self.live[slot] = (params, wish)

    def finished(self, slot):
        super().finished(slot)
        assert self.states.remove_request(f"r{slot}") == slot


@pytest.mark.parametrize("adapter", [Masks, Guided])
def test_every_row_is_as_if_it_were_alone(adapter):
    check_rows(Real(adapter, 0))


def test_a_request_comes_back_with_what_it_had():
    check_a_return(Real(Masks, 1))


def test_the_loader_takes_the_class_by_name_and_refuses_with_the_reason():
    from vllm import SamplingParams
    from vllm.exceptions import VLLMValidationError

    validate = loader.build_custom_logits_processors_params_validator(["second_runner:Masks"])
    validate(SamplingParams(extra_args={"tractile": {"regex": "a"}}))
    with pytest.raises(VLLMValidationError, match="at position"):
        validate(SamplingParams(extra_args={"tractile": {"regex": "("}}))
