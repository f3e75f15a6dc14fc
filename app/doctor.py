"""`warpsmith doctor`: what this machine offers, tried rather than assumed, and what to do about what it lacks."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from app import doctor_cuda as cuda
from app.exits import DONE, REJECTED
from app.findings import INSTALL_NINJA, INSTALL_TORCH, Finding, State, output, run
from app.quantities import amount
from app.terminal import console_for, plain_table
from tools.errors import WarpsmithError

_STYLES: dict[State, str] = {"ok": "green", "limited": "yellow", "missing": "red", "info": "dim"}
_SMALLEST_MEMORY = 2 << 30
_SMALLEST_DISK = 1 << 30


def examine(as_json: bool) -> int:
    """Look at everything, print it, and return 1 when something that a run needs is missing."""
    found = findings()
    if as_json:
        print(json.dumps([asdict(finding) for finding in found]))
    else:
        _print(console_for(), found)
    return REJECTED if any(finding.state == "missing" for finding in found) else DONE


def findings() -> list[Finding]:
    """Every finding, in the order to read them."""
    return [look() for look in LOOKS]


def python() -> Finding:
    text = f"{platform.python_version()} on {platform.system()} {platform.release()}, {platform.machine()}"
    if sys.platform != "linux":
        return Finding("python", "missing", text, "The judge confines kernels with Linux's own means: run it on Linux.")
    return Finding("python", "ok", text)


def compiler() -> Finding:
    path = shutil.which("g++")
    if path is None:
        return Finding("compiler", "missing", "no g++", "Install g++ 11 or newer, for instance: apt-get install g++")
    version = output([path, "-dumpfullversion", "-dumpversion"])
    if version is None or int((re.match(r"\d+", version) or ["0"])[0]) < 11:
        return Finding("compiler", "missing", f"g++ {version or 'that does not run'}", "Install g++ 11 or newer.")
    source = b"#include <omp.h>\nint main() { return omp_get_max_threads() < 1; }\n"
    with tempfile.TemporaryDirectory() as folder:
        program = str(Path(folder) / "try")
        built = run([path, "-std=c++20", "-fopenmp", "-x", "c++", "-", "-o", program], source)
        if built is None or built.returncode or output([program]) is None:
            return Finding("compiler", "missing", f"g++ {version} can't build an OpenMP program", "Install libgomp.")
    return Finding("compiler", "ok", f"g++ {version}, builds and runs an OpenMP program")


def sanitizer() -> Finding:
    path = shutil.which("g++")
    if path is None:
        return Finding("sanitizers", "missing", "no g++", "Install g++ first.")
    with tempfile.TemporaryDirectory() as folder:
        program = str(Path(folder) / "try")
        flags = ["-fsanitize=address,undefined", "-x", "c++", "-", "-o", program]
        built = run([path, *flags], b"int main() { return 0; }\n")
        if built is None or built.returncode:
            return Finding(
                "sanitizers",
                "missing",
                "g++ can't build with AddressSanitizer",
                "Install libasan and libubsan of this g++: winners are checked with them.",
            )
    return Finding("sanitizers", "ok", "AddressSanitizer and UBSan build")


def sandbox() -> Finding:
    """The level that is really in force: detecting it runs a confined program."""
    from tools.sandbox import detect

    try:
        found = detect()
    except WarpsmithError as error:
        return Finding("sandbox", "missing", error.message, error.advice)
    if found.level in ("bwrap", "namespaces"):
        return Finding("sandbox", "ok", found.describe())
    advice = "Install bubblewrap (apt-get install bubblewrap) or allow unprivileged user namespaces for a stronger one."
    return Finding("sandbox", "limited", found.describe(), advice)


def counters() -> Finding:
    """Whether perf counts instructions and cycles, tried on a program."""
    advice = "Profiles then use valgrind. On your own machine: sysctl kernel.perf_event_paranoid=1, and install perf."
    path = shutil.which("perf")
    if path is None:
        return Finding("perf counters", "limited", "no perf", advice)
    counted = run([path, "stat", "-x", ",", "-e", "instructions,cycles", "true"])
    text = counted.stderr.decode(errors="replace") if counted else ""
    if counted is None or counted.returncode or "<not" in text or "instructions" not in text:
        return Finding("perf counters", "limited", "perf is here, but this machine counts nothing", advice)
    return Finding("perf counters", "ok", "hardware counters work")


def valgrind() -> Finding:
    path = shutil.which("valgrind")
    if path is None:
        advice = (
            "Without perf or valgrind a profile has only times, roofline and vectorisation: apt-get install valgrind"
        )
        return Finding("valgrind", "limited", "not installed", advice)
    return Finding("valgrind", "ok", output([path, "--version"]) or "installed")


def cores() -> Finding:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    load = os.getloadavg()[0]
    text = f"{usable} usable, {_model()}, load {load:.1f}"
    if load > usable * 0.5:
        return Finding(
            "cores", "limited", text, "Other programs are busy: timings get wide intervals, so small gains are lost."
        )
    return Finding("cores", "ok", text)


def memory() -> Finding:
    import psutil

    available = psutil.virtual_memory().available
    text = f"{amount(available, 'B')} free of {amount(psutil.virtual_memory().total, 'B')}"
    if available < _SMALLEST_MEMORY:
        return Finding("memory", "limited", text, "Tasks larger than the free memory are refused.")
    return Finding("memory", "ok", text)


def cache() -> Finding:
    from tools.cache import cache_dir

    try:
        folder = cache_dir()
    except WarpsmithError as error:
        return Finding("cache folder", "missing", error.message, error.advice)
    free = shutil.disk_usage(folder).free
    text = f"{folder}, {amount(free, 'B')} free"
    if free < _SMALLEST_DISK:
        return Finding("cache folder", "limited", text, "Free some space, or set WARPSMITH_CACHE to a larger disk.")
    return Finding("cache folder", "ok", text)


def device_lock() -> Finding:
    """Whether the lock that keeps timings apart can be taken; held by another run is no fault."""
    from tools.device_lock import LOCK_FOLDER
    from tools.device_lock import device_lock as lock

    try:
        with lock("doctor", patience=2.0):
            return Finding("device lock", "ok", f"{LOCK_FOLDER} holds the locks that keep timings apart")
    except (WarpsmithError, OSError) as error:
        return Finding("device lock", "missing", str(error), f"Make {LOCK_FOLDER} writable for every user.")


def torch() -> Finding:
    if find_spec("torch") is None:
        advice = f"KernelBench files need it, and exports as kernelbench or torch-op to be judged: {INSTALL_TORCH}."
        return Finding("torch", "info", "not installed", advice)
    found = "installed, KernelBench files work"
    if shutil.which("ninja") is None:
        advice = f"Kernels that use load_inline, and exports for PyTorch, are built with it: {INSTALL_NINJA}."
        return Finding("torch", "limited", f"{found}; no ninja", advice)
    return Finding("torch", "ok", f"{found}, with ninja")


def models() -> Finding:
    """Which models a run would ask here, and whether their keys are there. Nothing is asked."""
    from app.configuration import Asked, configure, missing_keys

    try:
        found = configure(Asked(), os.environ, Path.cwd())
        missing = missing_keys(found)
    except WarpsmithError as error:
        return Finding("models", "limited", error.message, error.advice)
    for objection in found.objections.values():
        return Finding("models", "limited", objection.message, objection.advice)
    text = ", ".join(found.specs)
    if missing:
        names = ", ".join(dict.fromkeys(connection.key_env or spec for spec, connection in missing))
        return Finding("models", "limited", f"{text}; not set: {names}", "`warpsmith models` shows what is configured.")
    present = [connection.key_env for connection in found.connections.providers.values() if connection.key is not None]
    keys = f"; keys: {', '.join(present)}" if present else "; no key is set"
    advice = "" if found.providers else "Others play with --model provider:model: docs/models.md."
    return Finding("models", "ok" if found.providers else "info", text + keys, advice)


LOOKS: tuple[Callable[[], Finding], ...] = (
    python,
    compiler,
    sanitizer,
    sandbox,
    counters,
    valgrind,
    cores,
    memory,
    cache,
    torch,
    device_lock,
    *cuda.LOOKS,
    models,
)


def _print(console: Console, found: list[Finding]) -> None:
    table = plain_table("", "", "found")
    for finding in found:
        style = _STYLES[finding.state]
        text = escape(finding.found) + (f"\n[dim]{escape(finding.advice)}[/dim]" if finding.advice else "")
        table.add_row(finding.name, f"[{style}]{finding.state}[/{style}]", text)
    console.print(table)
    missing = [finding.name for finding in found if finding.state == "missing"]
    console.print()
    console.print(
        f"missing: {', '.join(missing)}" if missing else "Everything that a run needs is here.", highlight=False
    )


def _model() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor() or "unknown processor"
    found = re.search(r"model name\s*:\s*(.+)", text)
    return found[1].strip() if found else platform.machine()
