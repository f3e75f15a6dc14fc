"""Calls a torch kernel on one recorded workload, alone, for an instrument that starts it and looks at what it does.

    python -P -m tools.torch_replay FOLDER PLAN

FOLDER is the kernel's build, PLAN a folder with `plan.json` and the inputs' bytes (`tools.torch_look` writes both). No
server, no judge and no clock are about. What it says on the way, a line each: `replay: ready` (PyTorch and the inputs
are there, nothing of the kernel), `replay: calling` (its model is made), and then `replay: done`, or `replay: kernel:`
with what was raised. Not covered: a kernel that behaves when it is watched.
"""

from __future__ import annotations

import ast
import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from tools.torch_load import SOURCES, load_module, make_model, place_extensions

PLAN, DATA = "plan.json", "data"
RAISED = 3
"""Exit code of one whose kernel raised."""


def main() -> int:
    """Run the replay; the exit code."""
    folder, place = Path(sys.argv[1]), Path(sys.argv[2])
    plan = json.loads((place / PLAN).read_text())
    torch: Any = importlib.import_module("torch")
    torch.set_num_threads(1)
    data = bytearray((place / DATA).read_bytes())
    tensors = {name: _tensor(torch, data, each, plan["device"]) for name, each in plan["tensors"].items()}
    _say("ready")
    try:
        place_extensions(folder, build=False)
        os.chdir(folder / SOURCES)
        call = plan["call"]
        model = make_model(
            load_module(folder), call, {own: tensors[name] for own, name in call["state"].items()}, plan["device"]
        )
        arguments = [_argument(kind, value, tensors, plan["scalars"]) for kind, value in call["arguments"]]
        _settle(torch, plan["device"])
        _say("calling")
        with torch.no_grad():
            model(*arguments)
        _settle(torch, plan["device"])
    except BaseException as error:  # noqa: BLE001 - the kernel's code may raise anything
        _say(f"kernel: {type(error).__name__}: {str(error)[:300]}")
        return RAISED
    _say("done")
    return 0


def _tensor(torch: Any, data: bytearray, told: list[Any], device: str) -> Any:
    """An input in memory of its own, of exactly its size where the allocator keeps none back."""
    dtype, shape, offset, count = getattr(torch, told[0]), tuple(told[1]), told[2], told[3]
    made = torch.empty(shape, dtype=dtype, device=device)
    if count:
        made.copy_(torch.frombuffer(data, dtype=dtype, count=count, offset=offset).view(shape))
    return made


def _argument(kind: str, value: str, tensors: dict[str, Any], scalars: dict[str, Any]) -> Any:
    if kind == "constant":
        return ast.literal_eval(value)
    return scalars[value] if value in scalars else tensors[value]


def _settle(torch: Any, device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def _say(what: str) -> None:
    print(f"replay: {what}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
