"""Where a checked call runs: the CPU grid, or the compiled kernel of its GPU."""

from cake_tune.errors import ContractError, DeviceUnfitError
from cake_tune.mla.call import AttentionCall
from cake_tune.mla.decode import decode_on_cpu
from cake_tune.mla.prefill import prefill_on_cpu


def launch(call: AttentionCall) -> None:
    """Run ``call`` on its tensors' device; ``DeviceUnfitError`` where the GPU path is missing."""
    if call.q.is_cuda:
        _launch_on_cuda(call)
    elif not call.q.is_cpu:
        raise ContractError(f"q: expected a tensor on a CUDA device or the CPU, got device {call.q.device}")
    elif call.kernel == "decode":
        decode_on_cpu(call)
    else:
        prefill_on_cpu(call)


def _launch_on_cuda(call: AttentionCall) -> None:
    try:
        # Here, not above: the CPU path needs none of what this imports.
        from cake_tune.cuda import launch_decode, launch_prefill
    except ImportError as error:
        raise DeviceUnfitError(
            f"{call.q.device}: the compiled kernel cannot be loaded ({error}); install cake-tune[cuda]"
        ) from error
    if call.kernel == "decode":
        launch_decode(call)
    else:
        launch_prefill(call)
