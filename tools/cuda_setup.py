"""Builds PyCUDA against the CUDA toolkit of this machine: `make setup-cuda`, or `python -P -m tools.cuda_setup`.

PyCUDA has no wheels, and its build takes CUDA's place from the folder of the first `nvcc` on the PATH (a wrapper, on
many machines), wants cuRAND and links against the driver's library. This finds all three, writes them into the source
tree's `siteconf.py` (the build reads no environment variables), installs, and tries the result. Each failure that was
met on the way has an explanation here. Not covered: installing CUDA or the driver.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

from tools.environment import without_secrets
from tools.errors import InfrastructureError, WarpsmithError
from tools.process import Completed, run_command
from tools.targets.cuda_toolkit import find_toolkit

REQUIREMENT: Final = "pycuda>=2026.1"
"""As in pyproject.toml's extra `cuda`."""
FETCH_SECONDS, BUILD_SECONDS, TRY_SECONDS = 600.0, 1800.0, 60.0
STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
DRIVERS: Final = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/local/nvidia/lib64",
                  "/usr/lib/wsl/lib")  # fmt: skip
"""Where a driver puts libcuda.so.1, beside what the dynamic linker knows."""
EXPLANATIONS: Final[tuple[tuple[str, str], ...]] = (
    (r"Python\.h: No such file", "Python's headers are missing: apt-get install python3-dev (of this very version)."),
    (r"cuda\.h: No such file", "CUDA's headers are missing below the toolkit: install its `cudart` development files."),
    (r"cannot find -lcuda\b", "The driver's library is missing for the linker; give --driver-folder."),
    (r"cannot find -lcudart", "CUDA's run-time library is missing: install the toolkit's `cudart` development files."),
    (r"curand\.h: No such file", "cuRAND is missing; build with --without-curand."),
    (r"No matching distribution|Could not find a version|Failed to establish|Temporary failure in name",
     "No package index can be reached: docs/gpu.md says how to bring wheels to such a machine."),
    (r"(g\+\+|gcc)['\":]*:? (No such file|not found)", "There is no C++ compiler: apt-get install g++."),
    (r"externally-managed-environment", "This Python belongs to the system: use the project's .venv."),
)  # fmt: skip
TRY: Final = """
import sys
try:
    import pycuda.driver as driver
except ImportError as error:
    sys.exit(f"load: {error}")
try:
    driver.init()
except driver.Error as error:
    sys.exit(f"init: {error}")
print(driver.Device.count(), driver.Device(0).name() if driver.Device.count() else "no device")
"""


@dataclass(frozen=True)
class Place:
    """What PyCUDA's build must be told."""

    root: Path
    """The toolkit."""
    curand: bool
    driver_folder: Path
    """Holds a `libcuda.so` to link against: the toolkit's stub, or the driver's own."""

    def siteconf(self) -> str:
        """As PyCUDA's build reads it."""
        folders = [self.root / "lib64", self.root / "lib", *sorted(self.root.glob("targets/*/lib"))]
        lines = {
            "CUDA_ROOT": str(self.root),
            "CUDA_ENABLE_CURAND": self.curand,
            "CUDADRV_LIB_DIR": [str(self.driver_folder)],
            "CUDART_LIB_DIR": [str(folder) for folder in folders if folder.is_dir()],
            "CUDA_INC_DIR": [str(folder) for folder in include_folders(self.root)],
        }
        return "".join(f"{name} = {value!r}\n" for name, value in lines.items())


def include_folders(root: Path) -> list[Path]:
    return [folder for folder in (root / "include", *sorted(root.glob("targets/*/include"))) if folder.is_dir()]


def find_place(scratch: Path, driver_folder: Path | None = None, *, curand: bool | None = None) -> Place:
    """What to build against. `scratch` is a folder where a link to the driver's library may be made.

    InfrastructureError that says what is missing and how to get it.
    """
    root = find_toolkit().root
    includes = include_folders(root)
    if not any((folder / "cuda.h").is_file() for folder in includes):
        advice = "Install the toolkit's development files, or set CUDA_HOME to a toolkit that has them."
        raise InfrastructureError(f"the CUDA toolkit in {root} has no cuda.h", advice)
    if driver_folder is not None and not (driver_folder / "libcuda.so").is_file():
        raise InfrastructureError(f"there is no libcuda.so in {driver_folder}", "Give --driver-folder another folder.")
    has_curand = any((folder / "curand.h").is_file() for folder in includes)
    return Place(
        root,
        has_curand if curand is None else curand,
        driver_folder.absolute() if driver_folder else _driver_folder(root, scratch),
    )


def _driver_folder(root: Path, scratch: Path) -> Path:
    stubs = [path.parent for path in sorted(root.glob("**/stubs/libcuda.so"))]
    if stubs:
        return stubs[0]
    known = [Path(match) for match in re.findall(r"libcuda\.so\.1 .*=> (\S+)", _linker_cache())]
    for library in (*known, *(Path(folder) / "libcuda.so.1" for folder in DRIVERS)):
        if library.is_file():
            (scratch / "libcuda.so").symlink_to(library.resolve())
            return scratch
    raise InfrastructureError(
        "there is no libcuda.so to link against: the toolkit has no `stubs` folder and no driver is installed",
        "Install NVIDIA's driver or the toolkit's `cuda-driver-dev` package, or give --driver-folder.",
    )


def _linker_cache() -> str:
    try:
        return subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=False).stdout
    except OSError:
        return ""


def build(python: str, place: Place, folder: Path) -> None:
    """Fetch PyCUDA's sources into `folder`, and install them for `python`. InfrastructureError explains a failure."""
    pip = (python, "-m", "pip", "--disable-pip-version-check")
    (folder / "scratch").mkdir(exist_ok=True)
    environment = without_secrets() | {"TMPDIR": str(folder / "scratch")}  # one that is ended can't remove its own
    fetched = (*pip, "download", "-q", "--no-deps", "--no-binary", "pycuda", "-d", str(folder), REQUIREMENT)
    _succeed(
        run_command(fetched, timeout=FETCH_SECONDS, cwd=folder, env=environment), "PyCUDA's sources can't be fetched"
    )
    archive = next(iter(folder.glob("pycuda-*.tar.gz")))
    _succeed(run_command(("tar", "xzf", str(archive)), timeout=FETCH_SECONDS, cwd=folder), "they can't be unpacked")
    tree = folder / archive.name.removesuffix(".tar.gz")
    (tree / "siteconf.py").write_text(place.siteconf())
    _succeed(
        run_command(
            (*pip, "install", "-q", "--no-cache-dir", str(tree)), timeout=BUILD_SECONDS, cwd=folder, env=environment
        ),
        "PyCUDA does not build",
    )


def try_it(python: str) -> str:
    """What PyCUDA says once it is installed: "1 NVIDIA H200". InfrastructureError explains why it can't be used."""
    ran = run_command((python, "-c", TRY), timeout=TRY_SECONDS)
    if ran.ok:
        return ran.stdout.strip()
    last = (ran.stderr.strip().splitlines() or ["it said nothing"])[-1]
    advice = {
        "load": "It is built. To use it the driver's libcuda.so.1 must be found: install the driver, or set"
        " LD_LIBRARY_PATH to its folder.",
        "init": "It is built and loads. There is no device, or the driver is older than the toolkit: try nvidia-smi.",
    }.get(last.partition(":")[0], "Run `warpsmith doctor`.")
    raise InfrastructureError(f"PyCUDA can't be used yet ({last[:300]})", advice)


def explain(text: str) -> str:
    """What to do about a failed fetch or build, by its output."""
    known = next((advice for pattern, advice in EXPLANATIONS if re.search(pattern, text)), None)
    return known or "The end of its output is above. docs/gpu.md lists what the build needs."


def _succeed(ran: Completed, what: str) -> None:
    if ran.ok:
        return
    text = ran.stdout + ran.stderr
    why = "it took too long" if ran.timed_out else "\n".join(text.strip().splitlines()[-12:])[-2000:]
    raise InfrastructureError(f"{what}:\n{why}\n", explain(text))


@contextlib.contextmanager
def _tidy_when_stopped() -> Iterator[None]:
    """Have a signal that stops this process raise SystemExit, so that what was started and made is gone before it.
    One that is ignored (`nohup`) stays so."""

    def stop(number: int, _: FrameType | None) -> NoReturn:
        for each in heard:
            signal.signal(each, signal.SIG_IGN)
        print("setup-cuda: stopped", file=sys.stderr)
        sys.exit(128 + number)

    heard = [number for number in STOP_SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, stop) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def main(arguments: Sequence[str] | None = None) -> int:
    """Build, install and try; 0 when it works, 1 with an explanation when not, 3 when only the driver is lacking."""
    parser = argparse.ArgumentParser(description="Build PyCUDA against this machine's CUDA toolkit.")
    parser.add_argument("--python", default=sys.executable, help="whose environment it goes to")
    parser.add_argument("--driver-folder", type=Path, help="a folder with a libcuda.so to link against")
    parser.add_argument("--without-curand", action="store_true", help="leave cuRAND out even if it is there")
    asked = parser.parse_args(arguments)
    with _tidy_when_stopped():
        return _set_up(asked)


def _set_up(asked: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory(prefix="warpsmith-setup-") as name:
        folder = Path(name).resolve()
        try:
            place = find_place(folder, asked.driver_folder, curand=False if asked.without_curand else None)
            curand = "with" if place.curand else "without"
            print(f"toolkit {place.root}, {curand} cuRAND, libcuda in {place.driver_folder}")
            print("building PyCUDA (two to three minutes)", flush=True)
            build(asked.python, place, folder)
        except WarpsmithError as error:
            print(f"setup-cuda: {error}", file=sys.stderr)
            return 1
    try:
        print(f"PyCUDA works: {try_it(asked.python)}")
    except WarpsmithError as error:
        print(f"setup-cuda: {error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
