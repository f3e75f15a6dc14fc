"""Takes a torch kernel in: its module, the extensions that it builds or has built, its model with the task's values.

Runs in a confined child of `tools.torch_server`, on the side that nobody trusts.
"""

from __future__ import annotations

import ast
import errno
import importlib
import importlib.util
import inspect
import itertools
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tools.torch_ops import RuleBrokenError, broken_at

ENTRY = "kernel.py"
MODEL = "ModelNew"
SOURCES, MADE, EXTENSIONS = "src", "made", "ext"
"""Folders of a build: what the kernel brought, what was made of it, and in there its extensions."""


def load_module(folder: Path) -> Any:
    """Import the kernel's entry file. Whatever it raises passes."""
    sources = folder / SOURCES
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(sources))
    spec = importlib.util.spec_from_file_location("kernel", sources / ENTRY)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["kernel"] = module
    spec.loader.exec_module(module)
    if not callable(getattr(module, MODEL, None)):
        raise RuleBrokenError("no_entry", f"has no class `{MODEL}`: define it in {ENTRY}")
    return module


def make_model(module: Any, call: Mapping[str, Any], state: Mapping[str, Any], device: str) -> Any:
    """`ModelNew` made as the task's `Model` is, with `state` (by its own names) in place of its values."""
    torch: Any = importlib.import_module("torch")
    given = ast.literal_eval(call["init"])
    with torch.no_grad():
        model = getattr(module, MODEL)(**given) if isinstance(given, dict) else getattr(module, MODEL)(*given)
        if not isinstance(model, torch.nn.Module):
            return model
        model = model.to(device).eval().requires_grad_(False)
        if not state:
            return model
        own = dict(itertools.chain(model.named_parameters(), model.named_buffers()))
        missing = sorted(set(state) - set(own))
        if missing:
            raise RuleBrokenError("no_entry", f"has no parameter or buffer `{missing[0]}`, which `Model` has")
        for name, value in state.items():
            if own[name].shape != value.shape:
                shapes = f"{list(own[name].shape)} instead of {list(value.shape)}"
                raise RuleBrokenError("no_entry", f"has the parameter or buffer `{name}` with the shape {shapes}")
        model.load_state_dict(dict(state), strict=False, assign=True)
    return model


def place_extensions(folder: Path, *, build: bool) -> None:
    """Have `load` and `load_inline` build in folders of the build, numbered as they are called; or, without `build`,
    find there what they built."""
    cpp: Any = importlib.import_module("torch.utils.cpp_extension")
    root, count = folder / MADE / EXTENSIONS, itertools.count()

    def placed(function: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(function)

        def load(*arguments: Any, **named: Any) -> Any:
            bound = signature.bind(*arguments, **named)
            own = root / str(next(count))
            if build:
                own.mkdir(parents=True, exist_ok=True)
            bound.arguments["build_directory"] = str(own)
            return function(*bound.args, **bound.kwargs)

        return load

    if not build:
        inner = inspect.signature(cpp._jit_compile)

        def found(*arguments: Any, **named: Any) -> Any:
            asked = inner.bind(*arguments, **named).arguments
            built = sorted(Path(asked["build_directory"]).glob("*.so"))
            if not built:
                raise RuntimeError(f"the extension {asked['name']} was not built when the kernel was")
            return cpp._import_module_from_library(built[0].stem, asked["build_directory"], asked["is_python_module"])

        cpp._jit_compile = found
    cpp.load, cpp.load_inline = placed(cpp.load), placed(cpp.load_inline)


def place_caches() -> None:
    """Have CuPy keep what it compiles where the environment now says: it was imported before."""
    compiler: Any = sys.modules.get("cupy.cuda.compiler")
    if hasattr(compiler, "_set_kernel_cache_backend"):
        compiler._set_kernel_cache_backend(compiler._DiskKernelCacheBackend(os.environ["CUPY_CACHE_DIR"]))


def refuse_compilers(folder: Path) -> None:
    """Have the framework's own compilers say at once what they are."""
    torch: Any = importlib.import_module("torch")

    def refusing(name: str) -> Callable[..., Any]:
        def refuse(*_: Any, **__: Any) -> Any:
            raise broken_at(folder / SOURCES, "framework_op", f"called {name}: the framework would write the kernel")

        return refuse

    torch.compile = refusing("torch.compile")
    torch.jit.script = refusing("torch.jit.script")
    torch.jit.trace = refusing("torch.jit.trace")


def told(error: BaseException, folder: Path) -> dict[str, Any]:
    """An exception of the kernel's as a report: reason, phrase, and the line of its own code where there is one."""
    sources = folder / SOURCES
    if isinstance(error, RuleBrokenError):
        return {"reason": error.reason, "message": error.message, "file": error.file, "line": error.line}
    frames = [each for each in traceback.extract_tb(error.__traceback__) if Path(each.filename).is_relative_to(sources)]
    file = Path(frames[-1].filename).relative_to(sources).as_posix() if frames else None
    line = frames[-1].lineno if frames else None
    if isinstance(error, SyntaxError) and error.filename and Path(error.filename).is_relative_to(sources):
        file, line = Path(error.filename).relative_to(sources).as_posix(), error.lineno
    text = str(error).strip().splitlines()
    what = type(error).__name__ + (f": {text[0][:300]}" if text else "")
    where = f" ({file}:{line})" if file else ""
    if isinstance(error, SystemExit):
        return {"reason": "exited", "message": f"exited instead of returning{where}", "file": file, "line": line}
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError" or "alloc_cpu.cpp" in str(error):
        return {"reason": "out_of_memory", "message": f"asked for more memory than there is: {what}{where}"}
    if isinstance(error, OSError) and (error.errno == errno.EROFS or "temporary directory" in str(error)):
        message = f"wrote a file, or compiled what it had not when it was built: {what}{where}"
        return {"reason": "crashed", "message": message, "file": file, "line": line}
    if isinstance(error, PermissionError):
        reason, message = "forbidden_syscall", f"reached for what a kernel may not: {what}{where}"
        return {"reason": reason, "message": message, "file": file, "line": line}
    return {"reason": "crashed", "message": f"raised {what}{where}", "file": file, "line": line}
