"""``torch.compile`` sees both ops as operators that write their outputs."""

import pytest
import torch
from contract_inputs import make_inputs
from contract_matrix import overrides
from gpu_plans import PLANS, judge, run

from cake_tune.mla import (
    cake_sparse_mla_sm120_dsv4_nvfp4_decode,
    cake_sparse_mla_sm120_dsv4_nvfp4_prefill,
)

# torch's own compiler is not free of deprecated calls.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("case", [PLANS[2], PLANS[6]], ids=str)
def test_compiled_calls_are_the_eager_calls(case, device, backend):
    """In one graph, between other operators, with bitwise the eager result."""
    inputs = make_inputs(case, device)
    arguments = inputs.arguments | overrides(case)
    if case.kernel == "decode":
        arguments |= {"mid_out": inputs.mid_out, "mid_lse": inputs.mid_lse, "max_splits": case.chunks}
    op = {
        "decode": cake_sparse_mla_sm120_dsv4_nvfp4_decode,
        "prefill": cake_sparse_mla_sm120_dsv4_nvfp4_prefill,
    }[case.kernel]

    def step(q, output, out_lse):
        op((q * 2).contiguous(), inputs.cache, inputs.indices, output, out_lse, inputs.sm_scale, **arguments)
        return output * 2, out_lse + 0

    inputs.poison()
    compiled = torch.compile(step, backend=backend, fullgraph=True)
    doubled, lse = compiled(inputs.q, inputs.output, inputs.out_lse)
    inputs.q.mul_(2)
    expected, expected_lse = run(case, inputs)
    judge(inputs, expected, expected_lse)
    assert torch.equal(doubled, expected * 2)
    assert torch.equal(lse, expected_lse)
