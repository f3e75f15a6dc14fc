"""The parts of generated Python: templates filled strictly, and values written as literals."""

from __future__ import annotations

import ast
import pprint
from importlib.resources import files
from string import Template

from tools.contract import Scalar, Signature, Tensor, slots
from tools.errors import KernelError
from tools.torch_call import ModelCall


def filled(name: str, /, **values: str) -> str:
    """The template `export_NAME` with each `$key` replaced. KeyError when one is not given."""
    return Template(files("app").joinpath("templates", f"export_{name}.txt").read_text("utf-8")).substitute(values)


def literal(value: object) -> str:
    """`value` as Python text of short lines."""
    return pprint.pformat(value, width=110, sort_dicts=False)


def text_literal(text: str) -> str:
    """`text` as a raw literal that a person can read, where one can hold it."""
    raw = f"r'''\n{text}\n'''"
    try:
        return raw if ast.literal_eval(raw) == f"\n{text}\n" else repr(text)
    except (SyntaxError, ValueError):
        return repr(text)


def judged(calls: tuple[ModelCall, ...], names: tuple[str, ...], device: str) -> str:
    """The part that knows shapes and calls the kernel. KernelError where inputs can't tell two workloads apart."""
    signatures = [call.signature for call in calls]
    first = signatures[0]
    table = [_workload(name, one, signatures) for name, one in zip(names, signatures, strict=True)]
    distinct: list[dict[str, object]] = []
    for each in table:
        same = next((known for known in distinct if known["inputs"] == each["inputs"]), None)
        if same is None:
            distinct.append(each)
        elif (same["outputs"], same["slots"]) != (each["outputs"], each["slots"]):
            raise KernelError(
                f"the workloads {same['name']} and {each['name']} have inputs of the same shapes and other outputs",
                "Only the bare sources can be exported.",
            )
    return filled(
        "call.py",
        device=repr(device),
        inputs=literal([(item.name, _kind(item)) for item in first.inputs]),
        outputs=literal([(item.name, _kind(item)) for item in first.outputs]),
        in_place=literal(sorted(first.in_place)),
        workloads=literal(distinct),
    )


def _workload(name: str, one: Signature, signatures: list[Signature]) -> dict[str, object]:
    scalars = {item.name: item.ctype for item in one.scalars}
    filling: list[tuple[str, object]] = []
    for slot in slots(one, signatures):
        if slot.kind == "value":
            filling.append(("value", slot.value))
        elif slot.kind == "scalar":
            filling.append((scalars[slot.name], slot.name))
        else:
            filling.append(("tensor", slot.name))
    return {
        "name": name,
        "inputs": {item.name: item.shape for item in one.input_tensors},
        "outputs": {item.name: item.shape for item in one.outputs},
        "slots": filling,
    }


def _kind(item: Tensor | Scalar) -> str:
    return f"torch.{item.dtype}" if isinstance(item, Tensor) else item.ctype
