"""What a run on a GPU notes about it beside its name: facts, in words."""

from cake_tune.cuda.devices import Gpu, visible_gpus
from cake_tune.cuda.lock import shares_gpu
from cake_tune.cuda.monitor import GpuMonitor
from cake_tune.errors import DeviceUnfitError


def gpu_facts(gpu: Gpu | None = None) -> dict[str, str]:
    """UUID, power limit, ECC, MIG, clocks and foreign processes of ``gpu`` (None: the first visible one).

    Loads no torch and makes no context, so that in a parent process every compute process is a foreign one. What NVML
    does not tell is left out; where it tells nothing, ``nvml`` says why.
    """
    gpus = visible_gpus() if gpu is None else (gpu,)
    if not gpus:
        return {}
    facts = {"gpu": gpus[0].uuid, **({"shared": "measured beside others, as asked"} if shares_gpu() else {})}
    try:
        monitor = GpuMonitor(gpus[0].uuid)
    except DeviceUnfitError as error:
        return {**facts, "nvml": str(error)}
    others = ", ".join(map(str, monitor.compute_processes()))
    return {**facts, **monitor.facts(), **({"other compute processes": others} if others else {})}
