"""What one workload of a torch kernel is, in the worker: tensors over the judge's memory, and where results go."""

from __future__ import annotations

import ast
import importlib
import mmap
from dataclasses import dataclass, field
from typing import Any

from tools.torch_memory import DeviceMemory, HostMemory, Memory
from tools.torch_result import Region, Wanted


@dataclass
class Workload:
    """What one workload's call needs."""

    arguments: list[Any]
    """Tensors, constants, and (offset, type) of scalars by their place in `scalars`."""
    scalars: dict[int, tuple[int, str]]
    host: mmap.mmap
    wanted: list[Wanted]
    targets: list[int]
    """Where the judge takes each output."""
    block: tuple[int, int] | None
    """Addresses of the whole block of outputs and of its snapshot, on a device."""
    block_bytes: int
    taken: list[Region]
    state: dict[str, Any]
    model: Any = None
    results: list[int] = field(default_factory=list)
    kept: Any = None


def memory_of(plan: dict[str, Any], descriptors: list[int], guard: str) -> Memory:
    """All of the judge's memory, mapped."""
    if plan["device"] == "cuda":
        blocks: dict[int, tuple[int, bool]] = {}
        for each in plan["workloads"]:
            for part in ("inputs", "outputs", "snapshot"):
                blocks[descriptors[each[part]]] = (each["sizes"][part], part != "inputs")
        return DeviceMemory(blocks, plan["instruments"])
    host = HostMemory(guard)
    for number, each in enumerate(plan["workloads"]):
        for part in ("inputs", "outputs"):
            for name, (offset, size) in each[f"{part[:-1]}_spans"].items():
                if name in each["tensors"]:
                    slot = each["slots"].get(name, -1)
                    writable = part == "outputs"
                    host.map(descriptors[each[part]], offset, size, writable=writable, workload=number, slot=slot)
    return host


def workload_of(plan: dict[str, Any], descriptors: list[int], memory: Memory) -> Workload:
    """The workload that the plan describes, over the memory that is mapped."""
    torch: Any = importlib.import_module("torch")
    inputs, outputs = descriptors[plan["inputs"]], descriptors[plan["outputs"]]
    in_place = {name for name in plan["output_spans"] if name in plan["input_spans"]}

    def tensor(name: str) -> Any:
        dtype, shape = plan["tensors"][name]
        block, spans = (outputs, "output_spans") if name in in_place else (inputs, "input_spans")
        return memory.tensor(block, plan[spans][name][0], getattr(torch, dtype), tuple(shape))

    arguments: list[Any] = []
    scalars: dict[int, tuple[int, str]] = {}
    for kind, value in plan["call"]["arguments"]:
        if kind == "input" and value in plan["scalars"]:
            scalars[len(arguments)] = tuple(plan["scalars"][value])
            arguments.append(None)
        else:
            arguments.append(tensor(value) if kind == "input" else ast.literal_eval(value))
    state = {own: tensor(name) for own, name in plan["call"]["state"].items()}
    taken, wanted, targets = [], [], []
    for name, (offset, size) in plan["input_spans"].items():
        if name in plan["tensors"] and name not in in_place and size:
            start = memory.address(inputs, offset)
            taken.append((name, start, start + size))
    for name, (offset, size) in plan["output_spans"].items():
        dtype, shape = plan["tensors"][name]
        start = memory.address(outputs, offset) if size else 0
        own = (start, start + size) if name in in_place else None
        wanted.append(Wanted(name, getattr(torch, dtype), tuple(shape), size, own))
        targets.append(start)
    snapshot = plan.get("snapshot")
    block = None if snapshot is None else (memory.address(outputs, 0), memory.address(descriptors[snapshot], 0))
    host = mmap.mmap(descriptors[plan["host"]], 0, prot=mmap.PROT_READ)
    return Workload(arguments, scalars, host, wanted, targets, block, plan["output_bytes"], taken, state)
