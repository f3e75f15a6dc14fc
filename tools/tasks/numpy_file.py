"""A NumPy task: `inputs(rng, **parameters) -> dict`, `reference(**inputs)`, and maybe `flops` and `bytes_moved`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from tools.errors import TaskError
from tools.task import TaskSource
from tools.tasks.source_text import parameter_names, parse
from tools.tasks.user_code import load_module, user_call
from tools.tasks.values import Array, Inputs, Outputs, Value, as_array, named_outputs, widened


class NumpyBackend:
    """The two functions of a NumPy file, called under guard."""

    on_gpu = False
    fixed: frozenset[str] = frozenset()
    """Inputs whose distribution is not varied: none, all of them are data."""

    def __init__(self, source: TaskSource) -> None:
        self._source = source
        known = parameter_names(parse(source.entry, source.files[source.entry]), "inputs")
        self._parameters = {k: v for k, v in source.overrides.items() if known is None or k in known}
        constants = {k: v for k, v in source.overrides.items() if k not in self._parameters}
        self._module = load_module(source.files, source.entry, constants)
        self.notes: tuple[str, ...] = ()

    def given(self, workload: int, seed: int) -> Inputs:
        """Call `inputs`. Raises TaskError("raised" | "shapes" | "too_large")."""
        parameters = {**self._source.workloads[workload].parameters, **self._parameters}
        drawn = self._call("inputs", np.random.default_rng(seed), **parameters)
        if not isinstance(drawn, Mapping):
            raise TaskError("shapes", f"`inputs` returned a {type(drawn).__name__}", "Return a dict of name to array.")
        return {str(name): _input(str(name), value) for name, value in drawn.items()}

    def run(self, workload: int, inputs: Inputs) -> Outputs:  # noqa: ARG002 - a workload's constants are in its inputs
        """Call `reference` on views that can't be written, or on copies of what the task updates in place."""
        result = self._call("reference", **{name: self._lent(name, value) for name, value in inputs.items()})
        return {
            name: as_array(value, f"the reference's output `{name}`")
            for name, value in named_outputs(result, frozenset(inputs)).items()
        }

    def run64(self, workload: int, inputs: Inputs) -> Outputs:
        """Call `reference` with every floating input in float64."""
        return self.run(workload, {name: widened(value) for name, value in inputs.items()})

    def call(self, workload: int, inputs: Inputs) -> Callable[[], object]:  # noqa: ARG002
        """`reference`, ready to be timed."""
        return partial(self._module.reference, **{name: self._lent(name, value) for name, value in inputs.items()})

    def near(self, workload: int, inputs: Inputs) -> None:
        """None: NumPy computes on the host."""

    def noise(self, workload: int, inputs: Inputs, bits: int | None, *, rounded: bool) -> None:
        """None: NumPy computes on the host."""

    def transformed(self, name: str, array: Array, rng: np.random.Generator, *, signed: bool) -> None:
        """None: NumPy computes on the host."""

    def forget(self) -> None:
        """Nothing is held elsewhere."""

    def figure(self, name: str, inputs: Inputs) -> float | None:
        """The task's own `flops` or `bytes_moved` for these inputs, where it has that function."""
        if not hasattr(self._module, name):
            return None
        value = self._call(name, **inputs)
        if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not value > 0:
            raise TaskError("shapes", f"`{name}` returned {value!r}", "Return a positive number.")
        return float(value)

    def model(self, workload: int) -> None:
        """None: there is no module to make."""

    def _lent(self, name: str, value: Value) -> Value:
        if not isinstance(value, np.ndarray):
            return value
        if name in self._source.inplace:
            return value.copy()
        view = value.view()
        view.flags.writeable = False
        return view

    def _call(self, function: str, *arguments: Any, **named: Any) -> object:
        with user_call(self._source.files, f"`{function}` of {self._source.entry} failed"):
            result: object = getattr(self._module, function)(*arguments, **named)
        return result


def _input(name: str, value: object) -> Value:
    """Python numbers stay scalars, everything else becomes an array."""
    if isinstance(value, bool | int | float) and not isinstance(value, np.generic):
        return value
    return as_array(value, f"the input `{name}`")
