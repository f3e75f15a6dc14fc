"""What the framework's own profiler sees of a torch kernel, in the kernel's process: operators of all threads, and the
names of what ran on the device.

Not covered: a kernel that notices the profiler. It is one witness; the dispatcher's trace, which is in force in every
call alike, is the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

MOST_NAMES = 400
NAME_CHARACTERS = 300


class NoProfilerError(Exception):
    """The profiler does not work here: nothing is said about the kernel."""


def warm_up(torch: Any, device: str) -> None:
    """Start and stop it once, before the kernel is loaded: the first time takes long."""
    _watched(torch, device, lambda: torch.empty(1, device=device).fill_(1))


def profiled(torch: Any, device: str, call: Callable[[], Any], calls: int) -> dict[str, Any]:
    """Operators by name with their count, and kernels on the device with their count and microseconds."""
    call()
    operators: dict[str, int] = {}
    kernels: dict[str, list[float]] = {}
    for event in _watched(torch, device, lambda: [call() for _ in range(calls)]):
        name = event.name()[:NAME_CHARACTERS]
        on_device = "CUDA" in str(event.device_type())
        if on_device and not event.is_user_annotation():
            row = kernels.setdefault(name, [0, 0.0])
            row[0] += 1
            row[1] += event.duration_ns() / 1e3
        elif "::" in name and not on_device:
            operators[name] = operators.get(name, 0) + 1
    return {
        "operators": dict(list(operators.items())[:MOST_NAMES]),
        "kernels": dict(list(kernels.items())[:MOST_NAMES]),
    }


def _watched(torch: Any, device: str, work: Callable[[], Any]) -> list[Any]:
    """The profiler's events while `work` ran. By its bare functions: the class around them imports a compiler."""
    bare: Any = torch._C._profiler
    activities = {bare.ProfilerActivity.CPU, *([bare.ProfilerActivity.CUDA] if device == "cuda" else [])}
    try:
        settings = bare._ExperimentalConfig(profile_all_threads=True)
    except TypeError:  # an older framework: this thread alone
        settings = bare._ExperimentalConfig()
    config = bare.ProfilerConfig(bare.ProfilerState.KINETO, *(False,) * 5, settings, "")
    try:
        torch.autograd._prepare_profiler(config, activities)
        torch.autograd._enable_profiler(config, activities)
    except Exception as error:
        raise NoProfilerError(f"{type(error).__name__}: {error}") from error
    try:
        work()
        if device == "cuda":
            torch.cuda.synchronize()
    finally:
        result = torch.autograd._disable_profiler()
    events: list[Any] = result.events()
    return events
