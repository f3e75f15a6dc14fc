"""The trusted side of a task: draws inputs, gives expected values. Runs user code, so only in the service process.

Not covered: a reference that never returns; whoever runs the process bounds its time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from tools import rounding
from tools.contract import CType, Scalar, Signature, Tensor, task_header
from tools.distributions import DISTRIBUTIONS, transform
from tools.errors import TaskError
from tools.numerics import POLICY_BITS, POLICY_NOISE
from tools.task import TaskSource, WorkloadSpec
from tools.tasks.backend import Backend
from tools.tasks.kernelbench import KernelBenchBackend
from tools.tasks.numpy_file import NumpyBackend
from tools.tasks.torch_reference import NearExpected, torch_place
from tools.tasks.user_code import require_memory
from tools.tasks.values import DTYPES, FLOATS, Array, Inputs, Outputs, Value, all_finite, nbytes
from tools.torch_call import ModelCall, model_call, plain_call

__all__ = ["Array", "Inputs", "Outputs", "Reference", "Value", "load_reference"]


class Reference:
    """A loaded reference: signature known, distributions probed. Workloads are indices into `source.workloads`."""

    def __init__(self, source: TaskSource, backend: Backend) -> None:
        self.source = source
        self.workloads: tuple[WorkloadSpec, ...] = source.workloads
        self._backend = backend
        self._signed: dict[str, bool] = {"given": True}
        self._signatures = [self._probed_signature(index) for index in range(len(source.workloads))]
        with _as_shapes_fault():
            task_header(source.name, self._signatures)
        self.smallest = min(range(len(self._signatures)), key=lambda index: _elements(self._signatures[index]))
        """The workload with the fewest elements, for probing."""
        self._has_oracle, notes = self._probed_oracle()
        self.distributions: tuple[str, ...] = ("given",)
        """Usable distributions, "given" first; those under which the reference is not finite are left out and noted."""
        dropped = [name for name in self._asked() if not self._usable(name)]
        self.distributions += tuple(name for name in self._asked() if name not in dropped)
        if dropped:
            notes.append(f"not checked under {', '.join(dropped)} inputs, where the reference itself fails")
        if source.overrides:
            settings = ", ".join(f"{name}={value}" for name, value in source.overrides.items())
            notes.append(f"sizes or constants replaced: {settings}")
        self.notes: tuple[str, ...] = (*backend.notes, *notes)
        """What a person should know: dropped distributions, overrides in force, a missing float64 oracle."""

    def draw(self, workload: int, rng_seed: int, distribution: str = "given") -> Inputs:
        """Inputs made from `rng_seed` alone: equal seeds give equal content.

        C-contiguous arrays of the signature's shapes and dtypes. Raises TaskError("raised" | "shapes" | "too_large").
        """
        inputs = self._backend.given(workload, rng_seed)
        if distribution != "given":
            rng = np.random.default_rng([rng_seed, DISTRIBUTIONS.index(distribution)])
            inputs = {
                name: self._redistributed(distribution, value, rng)
                if isinstance(value, np.ndarray) and name not in self._backend.fixed
                else value
                for name, value in inputs.items()
            }
        if workload < len(self._signatures) and _described(inputs) != self._signatures[workload].inputs:
            raise TaskError("shapes", "The inputs' shapes or dtypes change with the seed", "Draw only their values.")
        return inputs

    def _redistributed(self, distribution: str, array: Array, rng: np.random.Generator) -> Array:
        signed = self._signed[distribution]
        moved = self._backend.transformed(distribution, array, rng, signed=signed)
        return transform(distribution, array, rng, signed=signed) if moved is None else moved

    def baseline(self, workload: int, inputs: Inputs) -> Outputs:
        """The reference in its own dtypes. It can't change `inputs`: arrays are lent read-only or as copies."""
        outputs = self._backend.run(workload, inputs)
        if workload < len(self._signatures) and _tensors(outputs) != self._signatures[workload].outputs:
            raise TaskError("shapes", "The outputs' names, shapes or dtypes change with the inputs", "Keep them fixed.")
        return outputs

    def baseline_call(self, workload: int, inputs: Inputs) -> Callable[[], object]:
        """The reference's own work alone, ready to be timed: conversions are done before, checks are left out."""
        return self._backend.call(workload, inputs)

    def oracle(self, workload: int, inputs: Inputs) -> Outputs | None:
        """The reference with every floating input widened to float64; None where it can't run so.

        Outputs that are floats in the signature come as float64, others in their own dtype.
        """
        return self._run64(workload, inputs) if self._has_oracle else None

    @property
    def on_gpu(self) -> bool:
        """Whether the reference computes on the GPU."""
        return self._backend.on_gpu

    def near(self, workload: int, inputs: Inputs) -> NearExpected | None:
        """The baseline's and the oracle's values where a GPU computed them; None where there are none such."""
        return self._backend.near(workload, inputs) if self._has_oracle else None

    def forget(self) -> None:
        """Give back device memory that no expected value needs any more."""
        self._backend.forget()

    def noise(self, workload: int, inputs: Inputs, oracle: Outputs | None = None) -> Outputs | None:
        """How far the oracle's outputs move (float64, >= 0) when each floating input is perturbed by about one
        rounding of its own dtype, what no kernel can do better than; or, for a part, by one that the policy allows.

        For `numerics.compare(noise=...)`: it keeps results of heavy cancellation from failing correct kernels. Costs
        one more oracle run, or two without `oracle`, its value at `inputs`; another two where the policy is loose.
        """
        exact = self.oracle(workload, inputs) if oracle is None else oracle
        if exact is None:
            return None
        found = self._moved(workload, inputs, exact, None)
        bits = POLICY_BITS.get(self.source.policy)
        if bits is None:
            return found
        allowed = [self._moved(workload, inputs, exact, bits, rounded=each) for each in (False, True)]
        return {
            name: np.maximum(value, POLICY_NOISE * np.maximum(*(each[name] for each in allowed)))
            for name, value in found.items()
        }

    def _moved(
        self, workload: int, inputs: Inputs, exact: Outputs, bits: int | None, *, rounded: bool = False
    ) -> Outputs:
        """By errors of random signs, or where `rounded` by those that rounding makes: of neighbours that are nearly
        equal, as on a ramp, they are alike and add up."""
        near = self._backend.noise(workload, inputs, bits, rounded=rounded)
        if near is not None:
            return near
        rng = np.random.default_rng(0)
        move = rounding.rounded if rounded else rounding.jittered
        moved = self.oracle(workload, {name: move(value, rng, bits) for name, value in inputs.items()})
        assert moved is not None
        with np.errstate(invalid="ignore", over="ignore"):
            return {
                name: np.abs(np.nan_to_num(moved[name] - value))
                if value.dtype in FLOATS
                else np.zeros(value.shape, np.float64)
                for name, value in exact.items()
            }

    def signature(self, workload: int) -> Signature:
        """Names, dtypes and shapes of inputs and outputs."""
        return self._signatures[workload]

    def flops(self, workload: int, inputs: Inputs) -> float | None:
        """Arithmetic operations of one call, or None when the task doesn't say."""
        return self.workloads[workload].flops or self._backend.figure("flops", inputs)

    def model_call(self, workload: int) -> ModelCall:
        """How a torch kernel's `ModelNew` is made and called. Raises TaskError, and KernelError for what can't be given
        to one."""
        signature, made = self._signatures[workload], self._backend.model(workload)
        return plain_call(signature) if made is None else model_call(signature, *made)

    def bytes_moved(self, workload: int, inputs: Inputs) -> float:
        """Fewest bytes of one call: the task's word, else inputs read once plus outputs written once."""
        given = self.workloads[workload].bytes or self._backend.figure("bytes_moved", inputs)
        signature = self._signatures[workload]
        return given or float(sum(tensor.nbytes for tensor in (*signature.input_tensors, *signature.outputs)))

    def _asked(self) -> list[str]:
        names = DISTRIBUTIONS if self.source.distributions is None else self.source.distributions
        return [name for name in names if name != "given"]

    def _run64(self, workload: int, inputs: Inputs) -> Outputs:
        outputs = self._backend.run64(workload, inputs)
        wanted = {tensor.name: tensor for tensor in self._signatures[workload].outputs}
        if {name: value.shape for name, value in outputs.items()} != {name: t.shape for name, t in wanted.items()}:
            raise TaskError("shapes", "The reference's outputs have other shapes in float64", "Don't branch on dtype.")
        return {
            name: value.astype(np.float64) if "float" in wanted[name].dtype else value
            for name, value in outputs.items()
        }

    def _probed_signature(self, workload: int) -> Signature:
        """Draw and run once, and draw again with another seed: what comes must be finite and of one shape."""
        inputs = self._backend.given(workload, 1)
        outputs = self._backend.run(workload, inputs)
        require_memory(4 * nbytes(inputs) + 8 * nbytes(outputs), f"The workload `{self.workloads[workload].name}`")
        if not all_finite(outputs):
            raise TaskError(
                "not_finite", "The reference returns NaN or an infinity for its own inputs", "Correct it or its inputs."
            )
        with _as_shapes_fault():
            signature = Signature(inputs=_described(inputs), outputs=_tensors(outputs))
        loose = set(self.source.inplace) ^ signature.in_place
        if loose:
            raise TaskError(
                "shapes",
                f"`{min(loose)}` must be an input, an output and listed under `inplace`, or only one of the first two",
                "Rename the output, or complete `inplace`.",
            )
        if _described(self._backend.given(workload, 2)) != signature.inputs:
            raise TaskError("shapes", "The inputs' shapes or dtypes change with the seed", "Draw only their values.")
        return signature

    def _probed_oracle(self) -> tuple[bool, list[str]]:
        """Whether the reference runs in float64, and what to say about it."""
        inputs = self._backend.given(self.smallest, 1)
        if not any(isinstance(value, np.ndarray) and value.dtype in FLOATS for value in inputs.values()):
            return True, []
        try:
            raw = self._backend.run64(self.smallest, inputs)
            outputs = self._run64(self.smallest, inputs)
        except TaskError as error:
            if error.fault == "too_large":
                raise
            return False, [f"no float64 oracle ({error.message}): compared with the reference in its own dtype"]
        if not all_finite(outputs):
            return False, ["no float64 oracle (not finite): compared with the reference in its own dtype"]
        if any(value.dtype in FLOATS and value.dtype != np.float64 for value in raw.values()):
            return True, ["the reference rounds its result below float64, so expected values carry that rounding"]
        return True, []

    def _usable(self, distribution: str) -> bool:
        """Whether the reference is finite under a distribution, with negative values or, if need be, without."""
        if distribution not in DISTRIBUTIONS:
            raise TaskError(
                "not_a_task", f"There is no distribution `{distribution}`", f"Choose from {', '.join(DISTRIBUTIONS)}."
            )
        for signed in (True, False):
            self._signed[distribution] = signed
            if all(self._finite_at(seed, distribution) for seed in (1, 2)):
                return True
        return False

    def _finite_at(self, seed: int, distribution: str) -> bool:
        try:
            inputs = self.draw(self.smallest, seed, distribution)
            with np.errstate(all="ignore"):
                near = self.near(self.smallest, inputs)
                if near is not None:
                    return near.finite()
                outputs = [self.baseline(self.smallest, inputs), self.oracle(self.smallest, inputs) or {}]
        except TaskError as error:
            if error.fault == "too_large":
                raise
            return False
        return all(all_finite(output) for output in outputs)


def load_reference(source: TaskSource, target: str = "cpu") -> Reference:
    """Execute the task's reference file and probe it on every workload. PyTorch works on the GPU for the target `cuda`
    where it has one and the reference runs there, else on the host.

    Raises TaskError: "not_python", "not_a_task", "raised" (with the user's own line), "not_finite", "shapes",
    "too_large" (estimated before allocating where possible), or "missing" when it needs torch and there is none.
    """
    if source.kind == "numpy":
        return Reference(source, NumpyBackend(source))
    place = torch_place(target)
    try:
        return Reference(source, KernelBenchBackend(source, place))
    except TaskError as error:
        if not place.on_gpu:
            raise
        place.forget()
        reference = Reference(source, KernelBenchBackend(source, torch_place("cpu")))
        reference.notes += (f"the reference runs on the CPU, since on the GPU it fails: {error.message}",)
        return reference


def _described(inputs: Inputs) -> tuple[Tensor | Scalar, ...]:
    with _as_shapes_fault():
        return tuple(
            Tensor(name=name, dtype=DTYPES[value.dtype], shape=value.shape)
            if isinstance(value, np.ndarray)
            else Scalar(name=name, ctype=_ctype(name, value))
            for name, value in inputs.items()
        )


def _ctype(name: str, value: float) -> CType:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, float):
        return "float64"
    if not -(2**63) <= value < 2**63:
        raise ValueError(f"the input `{name}` is {value}, which no 64-bit integer holds")
    return "int64"


def _tensors(outputs: Outputs) -> tuple[Tensor, ...]:
    return tuple(Tensor(name=name, dtype=DTYPES[value.dtype], shape=value.shape) for name, value in outputs.items())


def _elements(signature: Signature) -> int:
    return sum(tensor.size for tensor in (*signature.input_tensors, *signature.outputs))


@contextmanager
def _as_shapes_fault() -> Iterator[None]:
    """A signature that the native contract can't carry is the task's fault."""
    try:
        yield
    except ValueError as error:
        reason = str(error.errors()[0]["msg"]).removeprefix("Value error, ") if hasattr(error, "errors") else str(error)
        raise TaskError("shapes", f"The task does not fit a kernel: {reason}", "Change its names or shapes.") from error
