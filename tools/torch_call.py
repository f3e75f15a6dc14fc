"""How a task's model is made and called: what a torch kernel's `ModelNew` gets in place of `Model`."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Literal

from tools.contract import Signature
from tools.errors import KernelError
from tools.records import Record

Argument = tuple[Literal["input", "constant"], str]
"""An input of the task by name, or a constant as a Python literal."""


class ModelCall(Record):
    """One workload's `ModelNew(*init)`, its state, and `forward(*arguments)`."""

    init: str
    """A Python literal: a list of arguments, or a dict of named ones."""
    arguments: tuple[Argument, ...]
    state: dict[str, str]
    """Name of a parameter or buffer to the input that holds its value."""
    signature: Signature

    @property
    def tensors(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Dtype and shape of every input and output."""
        both = (*self.signature.input_tensors, *self.signature.outputs)
        return {item.name: (item.dtype, item.shape) for item in both}


def plain_call(signature: Signature) -> ModelCall:
    """`ModelNew()` and `forward` on the inputs in their order, as a task has it that is no torch module."""
    arguments: list[Argument] = [("input", item.name) for item in signature.inputs]
    return ModelCall(init="[]", arguments=tuple(arguments), state={}, signature=signature)


def model_call(
    signature: Signature, init: object, arguments: Sequence[tuple[str | None, object]], state: dict[str, str]
) -> ModelCall:
    """As a module's `Model` is made and called; each argument is an input's name, or None and a constant."""
    given: list[Argument] = []
    for name, constant in arguments:
        constant_text = "" if name is not None else literal(constant, "an argument of `forward`")
        given.append(("constant", constant_text) if name is None else ("input", name))
    init = init if isinstance(init, dict) else list(init) if isinstance(init, list | tuple) else init
    return ModelCall(
        init=literal(init, "what `get_init_inputs` returns"), arguments=tuple(given), state=state, signature=signature
    )


def literal(value: object, what: str) -> str:
    """`value` as text that `ast.literal_eval` reads. KernelError when it has none."""
    text = repr(value)
    try:
        if ast.literal_eval(text) == value:
            return text
    except (ValueError, SyntaxError):
        pass
    raise KernelError(
        f"{what} is a {type(value).__name__}, which can't be handed to a torch kernel",
        "Use numbers, texts, and lists, tuples or dicts of them.",
    )
