"""What a reference takes and returns, brought into one shape: named, native, C-contiguous arrays and plain scalars."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, get_args

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tools.contract import RESERVED, DType
from tools.errors import TaskError

Array: TypeAlias = NDArray[Any]
Value: TypeAlias = Array | int | float | bool
Inputs: TypeAlias = dict[str, Value]
"""Name to array (any shape, `()` too), or a Python scalar for a `contract.Scalar`, in the signature's order."""
Outputs: TypeAlias = dict[str, Array]

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
DTYPES: dict[np.dtype[Any], DType] = {
    BFLOAT16 if name == "bfloat16" else np.dtype(name): name for name in get_args(DType)
}
FLOATS: frozenset[np.dtype[Any]] = frozenset(d for d, name in DTYPES.items() if "float" in name)


def as_array(value: object, where: str) -> Array:
    """`value` as an array that owns dense, native memory. Raises TaskError("shapes") for what no kernel can have."""
    if not isinstance(value, np.ndarray | np.generic | bool | int | float):
        raise TaskError(
            "shapes", f"{where} is a {type(value).__name__}, not an array", "Return NumPy arrays or numbers."
        )
    array = np.asarray(value)
    array = array.astype(array.dtype.newbyteorder("="), order="C", copy=True)
    if array.dtype not in DTYPES:
        known = ", ".join(DTYPES.values())
        raise TaskError("shapes", f"{where} has dtype {array.dtype}, which kernels don't have", f"Use one of {known}.")
    return array


def named_outputs(result: object, taken: frozenset[str] = frozenset()) -> dict[str, object]:
    """A reference's result by name: a mapping as it is, one array as `out`, several as `out0`, `out1`, ...

    `taken` are the inputs' names, which a generated name must not repeat.
    """
    if isinstance(result, Mapping):
        return {str(name): value for name, value in result.items()}
    stem = next(name for name in ("out", "result", "out_") if not {name, f"{name}0"} & taken)
    if isinstance(result, tuple | list):
        return {f"{stem}{index}": value for index, value in enumerate(result)}
    return {stem: result}


def usable_name(name: str) -> str:
    """`name` as a C++ argument: dots become underscores, a reserved word gets one more."""
    text = name.replace(".", "_").lstrip("_") or "x"
    if not text[0].isalpha():
        text = f"p{text}"
    return f"{text}_" if text in RESERVED else text


def widened(value: Value) -> Value:
    """A floating array as float64; anything else as it is."""
    return value.astype(np.float64) if isinstance(value, np.ndarray) and value.dtype in FLOATS else value


def nbytes(values: Mapping[str, Value]) -> int:
    """Bytes of all arrays."""
    return sum(value.nbytes for value in values.values() if isinstance(value, np.ndarray))


def all_finite(values: Mapping[str, Array]) -> bool:
    """Whether no floating array holds a NaN or an infinity."""
    return all(bool(np.isfinite(widened(value)).all()) for value in values.values() if value.dtype in FLOATS)
