"""Whether a call runs at once, or is traced or watched and has to go through torch's dispatcher."""

from torch import Tensor
from torch._C import _is_tracing, _len_torch_dispatch_stack
from torch._C._functorch import peek_interpreter_stack
from torch.compiler import is_compiling


def runs_now(tensor: Tensor) -> bool:
    """True unless tracing, a tensor without data or of a subclass, a dispatch mode or a function transform is at work.

    Only then has ``tensor`` a pointer to look at.
    """
    return (
        not is_compiling()
        and not _is_tracing()
        and type(tensor) is Tensor
        and not tensor.is_meta
        and _len_torch_dispatch_stack() == 0
        and peek_interpreter_stack() is None
    )
