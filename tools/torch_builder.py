"""Builds a torch kernel: imports it once, where compilers may run, and calls it once on each workload.

A confined child of `tools.torch_server` that may write one folder. Its descriptors are: requests, answers, output; the
plan comes as JSON behind its length, what came of it goes back so. What is compiled when a kernel is first called
(Triton, CuPy) is compiled here too, on inputs of no meaning; whatever those calls raise is left to the judge's own.
"""

from __future__ import annotations

import ast
import importlib
import json
import os
import struct
import sys
import traceback
from pathlib import Path
from typing import Any

from tools.torch_channel import read_plan
from tools.torch_load import SOURCES, load_module, make_model, place_caches, place_extensions, refuse_compilers, told

SCALARS = (7, 16, 1)
"""Values of scalar inputs in the first calls: Triton makes other code for 1, and for multiples of 16."""


def serve(descriptors: list[int], guard: str) -> None:
    """Build, and tell: first whether it was built, then that its first calls are over."""
    del guard
    requests, answers = descriptors[:2]
    plan = read_plan(requests)
    folder = Path(plan["folder"])
    torch: Any = importlib.import_module("torch")
    torch.set_num_threads(1)
    place_extensions(folder, build=True)
    place_caches()
    refuse_compilers(folder)
    os.chdir(folder / SOURCES)
    try:
        module = load_module(folder)
        models = [_model(torch, module, each, plan["device"]) for each in plan["calls"]] if plan["calls"] else []
    except BaseException as error:  # noqa: BLE001 - the kernel's code may raise anything
        traceback.print_exc()
        _tell(answers, {"built": False, "text": str(error)[-200_000:], **told(error, folder)})
        return
    _tell(answers, {"built": True})
    for call, model in zip(plan["calls"], models, strict=True):
        try:
            for number in SCALARS if call["scalars"] else SCALARS[:1]:
                with torch.no_grad():
                    model(*_arguments(torch, call, plan["device"], number))
            if plan["device"] == "cuda":
                torch.cuda.synchronize()
        except BaseException as error:  # noqa: BLE001 - as above
            print(f"first call: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            break
    _tell(answers, {"called": True})


def _model(torch: Any, module: Any, call: dict[str, Any], device: str) -> Any:
    state = {own: _some(torch, call["tensors"][name], device) for own, name in call["state"].items()}
    return make_model(module, call, state, device)


def _arguments(torch: Any, call: dict[str, Any], device: str, number: int) -> list[Any]:
    scalars = {"int64": number, "float64": number + 0.5, "bool": bool(number % 2)}
    made: list[Any] = []
    for kind, value in call["arguments"]:
        if kind == "constant":
            made.append(ast.literal_eval(value))
        elif value in call["scalars"]:
            made.append(scalars[call["scalars"][value]])
        else:
            made.append(_some(torch, call["tensors"][value], device))
    return made


def _some(torch: Any, kind: tuple[str, list[int]], device: str) -> Any:
    """Ones for numbers, zeros for what may be an index."""
    dtype, shape = getattr(torch, kind[0]), tuple(kind[1])
    return torch.full(shape, 1 if dtype.is_floating_point else 0, dtype=dtype, device=device)


def _tell(descriptor: int, what: dict[str, Any]) -> None:
    data = json.dumps(what).encode()
    data = struct.pack("=I", len(data)) + data
    while data:
        data = data[os.write(descriptor, data) :]
