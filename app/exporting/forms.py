"""The three forms of an exported kernel as files, made without touching the disk or running anything."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from pydantic import JsonValue

from app.exporting.flags import flags_of, shown
from app.exporting.flat import flattened, sources_of
from app.exporting.texts import filled, judged, literal, text_literal
from tools.calls_process import Calls
from tools.errors import KernelError
from tools.records import Kernel, TargetName, content_id
from tools.targets.building import HEADER
from tools.task import TaskSource
from tools.tasks.source_text import parse, with_constants
from tools.torch_build import with_defines
from tools.torch_call import Argument

BASE = "torch.nn.Module"


@dataclass(frozen=True)
class Origin:
    """What is exported: an accepted kernel, and where it comes from."""

    task: TaskSource
    kernel: Kernel
    run: str
    attempt: str
    command: tuple[str, ...]
    """What built it for the judge; empty for a torch kernel."""
    target: TargetName

    @property
    def label(self) -> str:
        """As `softmax a7`, of characters that end no comment and no text."""
        return _plain(f"{self.task.name} {self.attempt}")

    @property
    def word(self) -> str:
        """The task's name as a name of Python's."""
        word = re.sub(r"\W+", "_", self.task.name, flags=re.ASCII).strip("_").lower() or "kernel"
        return f"k{word}" if word[0].isdigit() else word


def _plain(text: str) -> str:
    return " ".join(re.sub(r"[^\w .,+*()-]", " ", text).split())


def sources(origin: Origin, header: str) -> dict[str, str]:
    """The kernel's own files, `task.h`, `build.json` and a README."""
    kernel = origin.kernel
    files = dict(kernel.files) if kernel.language == "torch" else {**kernel.files, HEADER: header}
    build: dict[str, JsonValue] = {
        "run": origin.run,
        "attempt": origin.attempt,
        "language": kernel.language,
        "defines": dict(kernel.defines),
        "flags": list(kernel.flags),
        "libraries": list(origin.task.libraries),
        "command": [*shown(origin.command)],
    }
    native = {
        "label": origin.label,
        "run": _plain(origin.run),
        "command": " ".join(shown(origin.command)),
        "stream": ", a stream of CUDA's as the third" if kernel.language == "cuda" else "",
    }
    readme = filled("torch.md", label=origin.label, run=_plain(origin.run)) if kernel.language == "torch" else None
    return files | {
        "build.json": json.dumps(build, indent=2) + "\n",
        "README.md": readme or filled("sources.md", **native),
    }


def kernelbench(origin: Origin, calls: Calls) -> dict[str, str]:
    """`kernel.py` with `ModelNew`; for a reference that imports modules of its own, those too."""
    if origin.kernel.language == "torch":
        return with_defines(origin.kernel)
    native = origin.kernel.files | {HEADER: calls.header}
    build = _build("inline.py", origin, calls, source=text_literal(flattened(native)))
    head = f"# {origin.label} of the run {_plain(origin.run)}, exported by warpsmith.\n"
    reference = ""
    if origin.task.kind == "kernelbench":
        files = _reference_files(origin.task, 0)
        reference = files.pop(origin.task.entry).rstrip() + "\n\n\n"
        return files | {"kernel.py": head + reference + build + _judged(origin, calls) + _model(origin, calls)}
    return {"kernel.py": head + build + _judged(origin, calls) + _model(origin, calls)}


def package_name(origin: Origin) -> str:
    """Of the installable package, which no other package is likely to have."""
    return f"{origin.word}_op"


def torch_op(origin: Origin, calls: Calls) -> dict[str, str]:
    """A folder that pip installs. KernelError for a kernel that is a PyTorch module, or whose inputs hold no tensor."""
    if origin.kernel.language == "torch":
        raise KernelError(
            "a kernel that is a PyTorch module itself can't be exported as a custom operator",
            "Its own file works as it is: use --as kernelbench.",
        )
    first = calls.calls[0].signature
    if not first.input_tensors:
        raise KernelError("an operator of PyTorch's needs a tensor among its inputs", "Use --as kernelbench.")
    package = package_name(origin)
    native = origin.kernel.files | {HEADER: calls.header}
    named = {
        "package": package,
        "label": origin.label,
        "run": _plain(origin.run),
        "device": origin.target,
        "listed": ", ".join(f"`{item.name}`" for item in first.inputs),
    }
    build = _build("files.py", origin, calls, sources=literal(sources_of(native)))
    operator = filled(
        "op.py",
        **{key: named[key] for key in ("package", "device", "listed")},
        names=literal(tuple(item.name for item in first.inputs)),
        schema=literal(_schema(calls)),
    )
    own = {
        "__init__.py": filled("init.py", **{key: named[key] for key in ("package", "label", "run")}),
        "call.py": build + _judged(origin, calls),
        "op.py": operator,
        "selftest.py": _selftest(origin, calls, package),
        **{f"csrc/{path}": text for path, text in native.items()},
        **{f"reference/{path}": text for path, text in _all_references(origin.task).items()},
    }
    return {
        "pyproject.toml": filled("pyproject.toml", package=package, label=json.dumps(f"The kernel {origin.label}")),
        "README.md": filled("op.md", **named),
        **{f"{package}/{path}": text for path, text in own.items()},
    }


def op_as_module(origin: Origin, calls: Calls, exported: Mapping[str, str]) -> Kernel:
    """The package and a `ModelNew` that calls its operator: what the judge can judge of it."""
    package = package_name(origin)
    head = f"import operator\n\nimport torch\n\nfrom {package}.call import Judged\nfrom {package}.op import run\n"
    wrapped, files = head, {}
    if origin.task.kind == "kernelbench":
        files = _reference_files(origin.task, 0)
        wrapped = files.pop(origin.task.entry) + "\n\n" + head
    needed = {
        path: text
        for path, text in exported.items()
        if path.startswith(f"{package}/") and not path.startswith((f"{package}/reference/", f"{package}/selftest"))
    }
    text = wrapped + _model(origin, calls, "run(*(given[name] for name, _ in Judged.INPUTS))")
    return Kernel(language="torch", files=files | needed | {"kernel.py": text})


def _judged(origin: Origin, calls: Calls) -> str:
    return judged(calls.calls, tuple(each.name for each in origin.task.workloads), origin.target)


def _build(form: str, origin: Origin, calls: Calls, **more: str) -> str:
    """How PyTorch builds it: the judge's own flags."""
    flags = flags_of((*origin.command,), origin.kernel.language)
    on_gpu = origin.target == "cuda"
    identity = content_id([origin.kernel.model_dump(mode="json"), calls.header, flags.compile, flags.link])
    given = ["extra_ldflags=libraries()" if on_gpu else "extra_ldflags=list(LINK)"]
    given.append("extra_cuda_cflags=[*COMPILE, *architecture()]" if on_gpu else "extra_cflags=list(COMPILE)")
    if form == "inline.py":
        given.append('cpp_sources="", cuda_sources=SOURCE' if on_gpu else "cpp_sources=SOURCE")
    return filled(
        f"build_{form}",
        name=repr(f"{origin.word}_{identity}"),
        compile=literal(list(flags.compile)),
        link=literal(list(flags.link)),
        compiler="nvcc" if on_gpu else "g++",
        architecture=filled("architecture.py") if on_gpu else "",
        given=(",\n        ").join(given),
        **more,
    )


def _model(origin: Origin, calls: Calls, result: str = "in_order(given, launch(given))") -> str:
    call = calls.calls[0]
    state = ", ".join(f"({known!r}, operator.attrgetter({own!r}))" for own, known in call.state.items())
    imported = "\n\nimport operator\n" if state else ""
    return imported + filled(
        "model.py",
        arguments=literal([_argument(each) for each in call.arguments]),
        state=f"[{state}]",
        base="Model" if origin.task.kind == "kernelbench" else BASE,
        result=result,
        last="Judged.loaded()  # so that what is wrong with the build is said on import",
    )


def _argument(argument: Argument) -> tuple[str | None, object]:
    kind, value = argument
    return (value, None) if kind == "input" else (None, ast.literal_eval(value))


def _schema(calls: Calls) -> str:
    first = calls.calls[0].signature
    types = {"int64": "int", "float64": "float", "bool": "bool"}
    written = iter("abcdefghijklmnopqrstuvwxyz")
    parts = []
    for item in first.inputs:
        if item.name in first.in_place:
            parts.append(f"Tensor({next(written)}!) {item.name}")
        else:
            parts.append(f"{types[item.ctype] if hasattr(item, 'ctype') else 'Tensor'} {item.name}")
    new = [item for item in first.outputs if item.name not in first.in_place]
    made = "Tensor" if len(new) == 1 else f"({', '.join('Tensor' for _ in new)})"
    return f"({', '.join(parts)}) -> {made}"


def _selftest(origin: Origin, calls: Calls, package: str) -> str:
    task = origin.task
    return filled(
        "selftest.py",
        package=package,
        device=origin.target,
        kind=repr(task.kind),
        workloads=literal(
            [(each.name, _reference_name(task, at), _parameters(task, at)) for at, each in enumerate(task.workloads)]
        ),
        calls=literal([([_argument(one) for one in call.arguments], call.state) for call in calls.calls]),
        in_place=literal(sorted(calls.calls[0].signature.in_place)),
        float32="1e-4" if task.policy == "strict" else "2e-2",
    )


def _parameters(task: TaskSource, workload: int) -> dict[str, JsonValue]:
    """What `inputs` of a NumPy file is given beside its generator."""
    if task.kind != "numpy":
        return {}
    given = {**task.workloads[workload].parameters, **task.overrides}
    return {name: value for name, value in given.items() if name not in _constants(task, workload)}


def _constants(task: TaskSource, workload: int) -> dict[str, JsonValue]:
    """Module constants of the reference that have another value in this run."""
    from tools.tasks.source_text import parameter_names

    if task.kind == "kernelbench":
        return {**task.workloads[workload].parameters, **task.overrides}
    known = parameter_names(parse(task.entry, task.files[task.entry]), "inputs")
    return {name: value for name, value in task.overrides.items() if known is not None and name not in known}


def _reference_name(task: TaskSource, workload: int) -> str:
    """All workloads share one file where none has constants of its own."""
    return f"w{workload}_{PurePosixPath(task.entry).name}" if _constants(task, workload) else task.entry


def _reference_files(task: TaskSource, workload: int) -> dict[str, str]:
    """The reference with the constants of a workload, and the modules that it imports."""
    constants, files = _constants(task, workload), dict(task.files)
    if constants:
        tree = with_constants(parse(task.entry, files[task.entry]), constants)
        files[task.entry] = ast.unparse(ast.fix_missing_locations(tree)) + "\n"
    return files


def _all_references(task: TaskSource) -> dict[str, str]:
    found: dict[str, str] = {}
    for workload in range(len(task.workloads)):
        files = _reference_files(task, workload)
        found[_reference_name(task, workload)] = files.pop(task.entry)
        found |= files
    return found
