"""A KernelBench task: `Model`, `get_inputs`, `get_init_inputs`, as the file stands; needs torch.

Inputs are the arguments of `forward`, then the model's parameters and buffers. Parameters are drawn anew for each
seed around their initial values, and constant ones (all ones, all zeros) are spread, so that none can be ignored.
Not covered: arguments that hold lists of tensors, models that are random in `forward`.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from tools.errors import TaskError
from tools.task import TaskSource
from tools.tasks.torch_distributions import transformed
from tools.tasks.torch_reference import NearExpected, Place, jittered, rounded_to, torch_place
from tools.tasks.user_code import load_module, require_memory, user_call
from tools.tasks.values import (
    FLOATS,
    Array,
    Inputs,
    Outputs,
    Value,
    as_array,
    named_outputs,
    usable_name,
)


class KernelBenchBackend:
    """One module and one model for each workload, all at one place: on the host, or on a GPU."""

    def __init__(self, source: TaskSource, place: Place | None = None) -> None:
        self._source = source
        self.place = place or torch_place("cpu")
        self.on_gpu = self.place.on_gpu
        self._torch = self.place.torch
        self.notes: tuple[str, ...] = ()
        self._modules = [
            load_module(source.files, source.entry, {**workload.parameters, **source.overrides})
            for workload in source.workloads
        ]
        for module in self._modules:
            with user_call(source.files, f"`Model` of {source.entry} can't be made"):
                _require_room(self._torch, module, source.entry)
        self._templates = [_template(self._torch, module, self._arguments(module, 0)) for module in self._modules]
        self._models = [self._model(module, seed=1) for module in self._modules]
        taken = {item for item in self._templates[0] if isinstance(item, str)}
        names = [name for name, _ in _state(self._models[0])]
        self._state_names = {
            name: known if (known := usable_name(name)) not in taken else f"model_{known}" for name in names
        }
        self.fixed = frozenset(self._state_names.values())
        """Inputs whose distribution is not varied: the parameters and buffers."""
        self._refuse_hidden_state()

    def given(self, workload: int, seed: int) -> Inputs:
        """Call `get_inputs` and draw parameters. Raises TaskError("raised" | "shapes" | "too_large")."""
        arguments = self._arguments(self._modules[workload], seed)
        inputs: Inputs = {}
        for item, value in zip(self._templates[workload], arguments, strict=True):
            if isinstance(item, str):
                inputs[item] = self.place.array(value)
        rng = np.random.default_rng([seed, 1])
        for name, tensor in _state(self._models[workload]):
            start = self.place.array(tensor)
            vary = isinstance(tensor, self._torch.nn.Parameter) or name.endswith(("running_mean", "running_var"))
            inputs[self._state_names[name]] = _spread(name, start, rng) if vary and start.dtype in FLOATS else start
        return inputs

    def run(self, workload: int, inputs: Inputs) -> Outputs:
        """`forward` in the inputs' own dtypes."""
        return self._arrays(self._forwarded(workload, inputs, self._tensors(inputs)))

    def run64(self, workload: int, inputs: Inputs) -> Outputs:
        """`forward` with floating inputs, parameters and buffers in float64."""
        return self._arrays(self._forwarded(workload, inputs, self._tensors(inputs, wide=True)))

    def call(self, workload: int, inputs: Inputs) -> Callable[[], object]:
        """`forward`, ready to be timed."""
        return self._bound(self._models[workload], workload, self._tensors(inputs))

    def figure(self, name: str, inputs: Inputs) -> float | None:  # noqa: ARG002 - the format has no such functions
        """None: the format says neither flops nor bytes."""
        return None

    def near(self, workload: int, inputs: Inputs) -> NearExpected | None:
        """The expected values on the GPU, where they were computed there."""
        if not self.on_gpu:
            return None
        tensors = self._tensors(inputs)
        wide = {name: _widened(self._torch, value) for name, value in tensors.items()}
        own, oracle = (self._forwarded(workload, inputs, each) for each in (tensors, wide))
        if not all(isinstance(value, self._torch.Tensor) for value in own.values()):
            return None
        return NearExpected(self.place, own, oracle)

    def noise(self, workload: int, inputs: Inputs, bits: int | None, *, rounded: bool) -> Outputs | None:
        """How far the oracle's outputs move (see `Reference.noise`) when inputs move by half a unit of so many bits, or
        of those of their dtype, or are `rounded` to them; on the GPU; None where that has no part in it."""
        if not self.on_gpu:
            return None
        exact = self._forwarded(workload, inputs, self._tensors(inputs, wide=True))
        generator = self._torch.Generator(device=self.place.device).manual_seed(0)
        move = rounded_to if rounded else jittered
        moved_inputs = {
            name: move(self._torch, value, generator, bits) for name, value in self._tensors(inputs).items()
        }
        moved = self._forwarded(workload, inputs, moved_inputs)
        return {
            name: self.place.array((moved[name] - value).nan_to_num().abs())
            if value.is_floating_point()
            else np.zeros(tuple(value.shape), np.float64)
            for name, value in exact.items()
        }

    def transformed(self, name: str, array: Array, rng: np.random.Generator, *, signed: bool) -> Array | None:
        """`array` moved to a distribution on the GPU; None where the host does it."""
        return transformed(self.place, name, array, rng, signed=signed)

    def forget(self) -> None:
        """Give back device memory that is no longer used."""
        self.place.forget()

    def prepared(self, workload: int, inputs: Inputs) -> tuple[Any, list[Any]]:
        """A module of its own that holds the drawn parameters and buffers, and the arguments of a call."""
        model = self._model(self._modules[workload], seed=1)
        tensors = self._tensors(inputs)
        for name, held in _state(model):
            held.copy_(tensors[self._state_names[name]])
        return model, self._call_arguments(workload, tensors)

    def model(self, workload: int) -> tuple[object, list[tuple[str | None, object]], dict[str, str]]:
        """What `Model` is made from; for each argument of `forward` the input's name, or None and a constant; and the
        names of its parameters and buffers with those of their inputs."""
        module = self._modules[workload]
        with user_call(self._source.files, f"`get_init_inputs` of {self._source.entry} failed"):
            init = module.get_init_inputs() if hasattr(module, "get_init_inputs") else []
        items = self._templates[workload]
        arguments: list[tuple[str | None, object]] = [
            (each, None) if isinstance(each, str) else (None, each.value) for each in items
        ]
        return init, arguments, dict(self._state_names)

    def _tensors(self, inputs: Mapping[str, Value], *, wide: bool = False) -> dict[str, Any]:
        with user_call(self._source.files, f"{self._source.entry}: the inputs can't be handed to PyTorch"):
            return {name: self.place.tensor(value, wide=wide) for name, value in inputs.items()}

    def _call_arguments(self, workload: int, tensors: Mapping[str, Any]) -> list[Any]:
        return [tensors[item] if isinstance(item, str) else item.value for item in self._templates[workload]]

    def _bound(self, model: Any, workload: int, tensors: Mapping[str, Any]) -> Callable[[], object]:
        state = {name: tensors[known] for name, known in self._state_names.items()}
        return partial(_forward, self.place, model, state, self._call_arguments(workload, tensors))

    def _forwarded(self, workload: int, inputs: Inputs, tensors: Mapping[str, Any]) -> dict[str, Any]:
        return self._named(inputs, self._bound(self._models[workload], workload, tensors))

    def _named(self, inputs: Inputs, call: Callable[[], object]) -> dict[str, Any]:
        """What `forward` returned, by name, where it was computed."""
        with user_call(self._source.files, f"`Model.forward` of {self._source.entry} failed"):
            named = named_outputs(call(), frozenset(inputs))
        return {usable_name(name): value for name, value in named.items()}

    def _arrays(self, named: Mapping[str, Any]) -> Outputs:
        where = "the output `{}` of `Model.forward`"
        return {
            name: as_array(self.place.array(value, where.format(name)), where.format(name))
            if not isinstance(value, self._torch.Tensor)
            else self.place.array(value, where.format(name))
            for name, value in named.items()
        }

    def _arguments(self, module: ModuleType, seed: int) -> list[Any]:
        with user_call(self._source.files, f"`get_inputs` of {self._source.entry} failed"), self.place.seeded(seed):
            arguments = module.get_inputs()
        if not isinstance(arguments, list | tuple) or any(isinstance(a, list | tuple | dict) for a in arguments):
            raise TaskError("shapes", "`get_inputs` does not return a flat list of tensors and numbers", "Flatten it.")
        return list(arguments)

    def _model(self, module: ModuleType, seed: int) -> Any:
        with user_call(self._source.files, f"`Model` of {self._source.entry} can't be made"), self.place.seeded(seed):
            return _made(module).eval().requires_grad_(False).to(self.place.device)

    def _refuse_hidden_state(self) -> None:
        """A model that draws something outside its parameters and buffers could not be matched by any kernel."""
        inputs = self.given(0, 0)
        first = self._forwarded(0, inputs, self._tensors(inputs))
        other_model = self._model(self._modules[0], seed=2)
        other = self._named(inputs, self._bound(other_model, 0, self._tensors(inputs)))
        if any(not _close(self._torch, value, other[name]) for name, value in first.items()):
            raise TaskError(
                "not_a_task",
                "`Model` holds random values outside its parameters and buffers",
                "Register them as parameters or buffers.",
            )


@dataclass(frozen=True)
class _Constant:
    """An argument of `forward` that is neither a tensor nor a number: part of the task, not given to the kernel."""

    value: object


def _template(torch: Any, module: ModuleType, arguments: list[Any]) -> list[str | _Constant]:
    """For each argument of `forward`, its name as a kernel's input or the constant it is."""
    parameters = list(inspect.signature(module.Model.forward).parameters.values())[1:]
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    names += [f"arg{index}" for index in range(len(names), len(arguments))]
    return [
        usable_name(name) if isinstance(value, torch.Tensor | bool | int | float) else _Constant(value)
        for name, value in zip(names, arguments, strict=False)
    ]


def _made(module: ModuleType) -> Any:
    arguments = module.get_init_inputs() if hasattr(module, "get_init_inputs") else []
    return module.Model(**arguments) if isinstance(arguments, dict) else module.Model(*arguments)


def _forward(place: Place, model: Any, state: dict[str, Any], arguments: list[Any]) -> object:
    with place.torch.no_grad(), place.entered():
        return place.torch.func.functional_call(model, state, tuple(arguments))


def _widened(torch: Any, value: Any) -> Any:
    """A copy in float64 of floats, and of anything else a copy: `forward` may work in place."""
    if not isinstance(value, torch.Tensor):
        return value
    return value.double() if value.is_floating_point() else value.clone()


def _close(torch: Any, one: Any, other: Any) -> bool:
    one, other = (value.double() if isinstance(value, torch.Tensor) else value for value in (one, other))
    if not isinstance(one, torch.Tensor):
        return bool(one == other)
    return bool(torch.allclose(one, other, 1e-3, 1e-5, equal_nan=True))


def _state(model: Any) -> Iterator[tuple[str, Any]]:
    """Parameters and buffers; the count of training batches has no part in `eval()`."""
    yield from model.named_parameters()
    for name, buffer in model.named_buffers():
        if not name.endswith("num_batches_tracked"):
            yield name, buffer


def _spread(name: str, start: Array, rng: np.random.Generator) -> Array:
    """Values with the mean and spread of `start`; a constant tensor gets a spread; a variance stays positive."""
    wide = start.astype(np.float64)
    mean = float(wide.mean()) if wide.size else 0.0
    spread = float(wide.std()) if wide.size else 0.0
    if spread < 1e-6 * max(abs(mean), 1e-6):
        spread = 0.25 * max(abs(mean), 0.4)
    drawn = mean + spread * rng.uniform(-(3**0.5), 3**0.5, start.shape)
    if name.endswith("running_var"):
        drawn = np.abs(drawn) + 0.1
    return as_array(np.asarray(drawn).astype(start.dtype), f"the parameter `{name}`")


def _require_room(torch: Any, module: ModuleType, entry: str) -> None:
    """Run the task on shapes alone (torch's meta device) and refuse it when its arrays can't fit.

    Counts the copies that judging makes: float64 inputs and outputs, poisoned outputs, temporaries of the comparison.
    What can't run on shapes alone is left to the bound on allocations.
    """
    largest = 0
    mode = importlib.import_module("torch.utils._python_dispatch").TorchDispatchMode

    class Meter(mode):  # type: ignore[misc, valid-type]
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            nonlocal largest
            made = function(*args, **(kwargs or {}))
            largest = max(largest, _tensor_bytes(torch, made))
            return made

    try:
        with torch.device("meta"), torch.no_grad(), Meter():
            arguments = list(module.get_inputs())
            model = _made(module).eval()
            largest = 0
            outputs = model(*arguments)
    except (RuntimeError, NotImplementedError, TypeError, ValueError, AttributeError):
        return
    state = [tensor for _, tensor in _state(model)]
    taken, given = _tensor_bytes(torch, [arguments, state]), _tensor_bytes(torch, outputs)
    require_memory(4 * taken + 8 * given + 4 * largest, f"{entry} at this size")


def _tensor_bytes(torch: Any, value: Any) -> int:
    if isinstance(value, torch.Tensor):
        return int(value.numel() * value.element_size())
    if isinstance(value, dict):
        value = list(value.values())
    return sum(_tensor_bytes(torch, item) for item in value) if isinstance(value, list | tuple) else 0
