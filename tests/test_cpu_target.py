"""The C++ compiler behind the target: what it accepts, what it refuses and how it says so."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from native_kernels import SCALE, SIGNATURE, source

from tools.cache import stored
from tools.contract import task_header
from tools.errors import InfrastructureError, KernelError
from tools.records import Kernel
from tools.targets.base import Build, Variant
from tools.targets.cpu import CpuTarget
from tools.targets.cpu_flags import allowed_flag
from tools.toolchain import find_compiler

HEADER = task_header("test", [SIGNATURE])


def compiled(text: str, variant: Variant = "release", **settings: Any) -> Build:
    kernel = Kernel.model_validate({"language": "cpp", "files": {"kernel.cpp": text}, **settings})
    return CpuTarget().compile_kernel(kernel, HEADER, variant)


@pytest.mark.parametrize("variant", ["release", "asan", "profile"])
def test_a_good_kernel_builds_once(variant: Variant) -> None:
    first = compiled(source(SCALE), variant)
    again = compiled(source(SCALE), variant)
    assert first.library is not None and first.library.exists()
    assert first.report.built and again.report.cached and again.library == first.library


def test_defines_flags_and_several_files_reach_the_compiler() -> None:
    files = {
        "kernel.cpp": '#include "task.h"\n#include "part/helper.h"\n#if N != 7\n#error N\n#endif\n'
        'extern "C" void solve(const task::Args& args, void*) { helper(args.y); }',
        "part/helper.h": "void helper(float*);",
        "helper.cpp": '#include "part/helper.h"\nvoid helper(float* y) { y[0] = 1; }',
    }
    kernel = Kernel(language="cpp", files=files, defines={"N": "7"}, flags=("-O3", "-funroll-loops"))
    build = CpuTarget().compile_kernel(kernel, HEADER)
    assert build.library is not None, build.report.output
    assert build.report.command.index("-O3") > build.report.command.index("-O2")


def test_an_error_is_reported_by_line() -> None:
    build = compiled(source("undeclared = 1;"))
    (error,) = [item for item in build.report.diagnostics if item.severity == "error"]
    line = source("undeclared = 1;").splitlines().index("undeclared = 1;") + 1
    assert (build.reason, error.file, error.line) == ("compile_error", "kernel.cpp", line)
    assert build.message.startswith(f"kernel.cpp:{line}: ") and build.library is None and not build.report.built


@pytest.mark.parametrize("name", ["nowhere.h", "/etc/hostname", "../../../../../../../../etc/hostname"])
def test_a_missing_or_outside_include_is_an_error_of_the_kernel(name: str) -> None:
    build = compiled(f'#include "{name}"\n' + source(SCALE))
    assert build.reason == "compile_error"
    assert "No such file" in build.message and build.report.diagnostics[0].line == 1


def test_a_library_without_the_entry_is_told_apart() -> None:
    build = compiled('#include "task.h"\nstatic int unused;\n')
    assert build.reason == "no_entry" and any(item.severity == "error" for item in build.report.diagnostics)


def test_an_undefined_function_fails_at_link_time() -> None:
    build = compiled('extern "C" void cblas_sgemm();\n' + source("cblas_sgemm();"))
    assert build.reason == "compile_error"
    assert "undefined reference to `cblas_sgemm'" in build.message


def test_only_libraries_that_the_task_allows_can_be_linked() -> None:
    found = subprocess.run(
        ["g++", "-print-file-name=libquadmath.so"], capture_output=True, text=True, check=True
    ).stdout
    if not Path(found.strip()).is_absolute():
        pytest.skip("this compiler has no library beside the standard ones")
    text = source("args.y[0] = (float)sqrtq(args.a[0]);", 'extern "C" __float128 sqrtq(__float128);')
    kernel = Kernel(language="cpp", files={"kernel.cpp": text})
    assert CpuTarget().compile_kernel(kernel, HEADER).reason == "compile_error"
    assert CpuTarget().compile_kernel(kernel, HEADER, libraries=["quadmath"]).library is not None


@pytest.mark.parametrize("library", ["../evil", "-L/x", "a b", ""])
def test_a_library_is_a_plain_name(library: str) -> None:
    with pytest.raises(KernelError, match="is no library's name"):
        CpuTarget().compile_kernel(Kernel(language="cpp", files={"kernel.cpp": ""}), HEADER, libraries=[library])


FORBIDDEN_FLAGS = (
    *("-I/x", "-include", "-fplugin=x", "-wrapper", "-B/x", "@file", "-O3 -I/x", "-Wl,-rpath,/", "-Wa,x", "-Wp,-MD,x"),
    *("-o", "-x", "-L/x", "-lm", "-DX", "-fdump-tree-all", "-specs=x", "-save-temps", "-fprofile-use=/x", "-dumpdir"),
    *("-fsanitize=thread", "-fopenmp-targets=x", "-pipe", "-Wl", "-MD", "-Wall\n", ""),
)


@pytest.mark.parametrize("flag", FORBIDDEN_FLAGS)
def test_flags_outside_the_closed_set_are_refused(flag: str) -> None:
    with pytest.raises(KernelError, match="is not allowed"):
        compiled(source(SCALE), flags=(flag,))


@pytest.mark.parametrize(
    "settings", [{"defines": {"A B": "1"}}, {"defines": {"A": "1 -I/"}}, {"defines": {"A": '"x"'}}]
)
def test_defines_are_plain(settings: dict[str, Any]) -> None:
    with pytest.raises(KernelError):
        compiled(source(SCALE), **settings)


@pytest.mark.parametrize("path", ["../x.h", "/x.h", "a//b.h", "-x.cpp", ".hidden", "task.h", "a b.h"])
def test_odd_file_names_are_refused(path: str) -> None:
    files = {"kernel.cpp": source(SCALE), path: ""}
    with pytest.raises(KernelError):
        CpuTarget().compile_kernel(Kernel(language="cpp", files=files), HEADER)


def test_every_flag_that_a_tuner_may_try_is_allowed() -> None:
    groups = CpuTarget().tunable_flags
    assert groups and all(group[0] == () for group in groups)
    assert all(allowed_flag(flag) for group in groups for alternative in group for flag in alternative)


def test_the_compiler_is_gxx_whatever_the_environment_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "ccache some-other-compiler")
    find_compiler.cache_clear()
    assert find_compiler().path.name == "g++"


@pytest.mark.parametrize(
    ("body", "says"),
    [("exit 0", "does not say which version"), ("echo; exit 0", "does not say which version"), ("exit 3", "not run")],
)
def test_a_compiler_that_says_nothing_of_itself_is_the_machine_s_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, says: str
) -> None:
    (tmp_path / "g++").write_text(f"#!/bin/sh\n{body}\n")
    (tmp_path / "g++").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(InfrastructureError, match=says) as caught:
        find_compiler.__wrapped__()
    assert "g++ 11" in caught.value.advice


def test_what_a_killed_build_left_half_made_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPSMITH_CACHE", str(tmp_path))
    old, new = tmp_path / "things" / ".making-old", tmp_path / "things" / ".making-new"
    for folder in (old, new):
        folder.mkdir(parents=True)
        (folder / "half").write_text("")
    os.utime(old, (0, 0))
    entry = stored("things", ["whole"], lambda folder: (folder / "file").touch())
    assert (entry / "file").exists() and new.exists() and not old.exists()
