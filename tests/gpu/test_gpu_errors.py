"""The errors that only a GPU can show."""

import pytest
import torch
from contract_inputs import make_inputs
from contract_matrix import run_case
from gpu_plans import PLANS, run

from cake_tune.errors import ContractError
from cake_tune.mla import checked_slots

CASE = PLANS[2]


@pytest.mark.parametrize(
    ("name", "move"),
    [
        ("kv_cache", lambda inputs: setattr(inputs, "cache", inputs.cache.cpu())),
        ("indices", lambda inputs: setattr(inputs, "indices", inputs.indices.cpu())),
        ("output", lambda inputs: setattr(inputs, "output", inputs.output.cpu())),
        ("mid_lse", lambda inputs: setattr(inputs, "mid_lse", inputs.mid_lse.cpu())),
        ("attn_sink", lambda inputs: inputs.arguments.update(attn_sink=inputs.arguments["attn_sink"].cpu())),
    ],
)
def test_a_tensor_on_another_device_is_named(device, name, move):
    """Nothing is launched with a pointer that the GPU cannot follow."""
    inputs = make_inputs(CASE, device)
    if name == "kv_cache":  # a padded view would be refused for its copy's strides first
        inputs.cache = inputs.cache.contiguous()
    move(inputs)
    with pytest.raises(ContractError, match=f"{name}: expected .*cuda.*got .*cpu"):
        run_case(CASE, inputs)


def test_checked_mode_finds_a_slot_outside_the_pool(device):
    """A slot at num_pages * page_size is refused in checked mode, and the call goes through again once it is gone."""
    inputs = make_inputs(CASE, device)
    inputs.arguments.pop("topk_length")
    inputs.indices.clamp_(max=0)
    slots = inputs.cache.shape[0] * inputs.cache.shape[2]
    inputs.indices[1, 5] = slots
    with checked_slots():
        with pytest.raises(ContractError, match=f"indices: .*got {slots}"):
            run_case(CASE, inputs)
        inputs.indices[1, 5] = -1
        run(CASE, inputs)


def test_misaligned_query_is_refused(device):
    """A pointer that 16-byte loads cannot use never reaches the kernel."""
    inputs = make_inputs(CASE, device)
    storage = torch.empty(inputs.q.numel() + 1, dtype=torch.bfloat16, device=device)
    inputs.q = storage[1:].view(inputs.q.shape)
    with pytest.raises(ContractError, match="q: expected a 16-byte aligned"):
        run_case(CASE, inputs)
