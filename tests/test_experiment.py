"""A model's own small programs: what they may do, what ends them, and that what they print is read by nobody else."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from small_tasks import HONEST, cpp, saxpy

from agents.actions import TOOLS
from agents.device_actions import experiment as action
from agents.findings import of_experiment
from agents.toolbox import Tool
from tools.errors import InfrastructureError, KernelError
from tools.executor import CommandExecutor, LocalExecutor
from tools.experiment import outcome_of
from tools.process import MARK, Completed
from tools.program import STDERR_BYTES, STDOUT_BYTES, Experiment, Program
from tools.records import Accepted
from tools.sandbox import detect
from tools.targets.cuda_toolkit import find_devices, find_toolkit

ROOT = Path(__file__).resolve().parent.parent
INCLUDES = """#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <arpa/inet.h>
#include <netinet/in.h>
"""


def program(body: str, before: str = "", **settings: object) -> Program:
    text = f"{INCLUDES}{before}\nint main() {{\n{body}\n}}\n"
    return Program.model_validate({"language": "cpp", "files": {"main.cpp": text}, "seconds": 5} | settings)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def executor() -> AsyncIterator[LocalExecutor]:
    async with LocalExecutor() as executor:
        await executor.open(saxpy())
        yield executor


pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_program_measures_and_prints(executor: LocalExecutor) -> None:
    body = """#pragma omp parallel for reduction(+:sum)
    for (int i = 0; i < N; ++i) sum += i;
    printf("sum %ld of %zu bytes\\n", sum, sizeof(task::Args));
    fprintf(stderr, "to stderr\\n");
    return 3;"""
    files = {"main.cpp": '#include "part/long.h"\n' + INCLUDES + f"int main() {{ long_t sum = 0;\n{body}\n}}\n"}
    files["part/long.h"] = '#include "task.h"\nusing long_t = long;\n'
    asked = Program(language="cpp", files=files, defines={"N": "1000"}, flags=("-O3",))
    found = await executor.experiment(saxpy(), asked)
    assert (found.status, found.exit_code, found.program) == ("ended", 3, asked.id)
    assert found.stdout.startswith("sum 499500 of ") and found.stderr == "to stderr\n"
    assert found.seconds and not found.truncated


async def test_what_does_not_build_is_told_by_line(executor: LocalExecutor) -> None:
    found = await executor.experiment(saxpy(), program("return undeclared;"))
    assert found.status == "not_built"
    (error,) = [each for each in found.diagnostics if each.severity == "error"]
    assert error.file == "main.cpp" and error.line and "undeclared" in error.message
    linked = await executor.experiment(saxpy(), program("return missing();", "int missing();"))
    assert linked.status == "not_built" and "undefined reference" in linked.diagnostics[-1].message


@pytest.mark.parametrize("flag", ["-include/etc/passwd", "-fplugin=x", "-o/tmp/x", "-L/x"])
async def test_settings_are_those_of_kernels(executor: LocalExecutor, flag: str) -> None:
    with pytest.raises(KernelError, match="not allowed"):
        await executor.experiment(saxpy(), program("return 0;", flags=(flag,)))


@pytest.mark.parametrize("path", ["../main.cpp", "/etc/x.cpp", "task.h"])
async def test_files_stay_in_their_folder(executor: LocalExecutor, path: str) -> None:
    files = {"main.cpp": "int main() {}", path: ""}
    with pytest.raises(KernelError):
        await executor.experiment(saxpy(), Program(language="cpp", files=files))


# ------------------------------------------------------------------------------------------------------------- hostile

ENDLESS = "for (volatile int i = 0;; ++i) {}"
BOMB = """int made = 0;
    for (int i = 0; i < 200; ++i) {
        const pid_t child = fork();
        if (child == 0) for (;;) pause();
        made += child > 0;
    }
    printf("made %d\\n", made);
    return 0;"""
HOG = """long total = 0;
    for (;;) {
        char* more = static_cast<char*>(malloc(64 << 20));
        if (more == nullptr) { printf("no more after %ld MiB\\n", total); return 0; }
        memset(more, 1, 64 << 20);
        total += 64;
    }"""
THREADS = """std::vector<std::thread> made;
    try { for (int i = 0; i < 100000; ++i) made.emplace_back([] { sleep(100); }); }
    catch (const std::system_error&) { printf("no more after %s\\n", made.size() < 100000 ? "some" : "all"); }
    fflush(stdout);
    _exit(0);"""
FLOOD = 'for (;;) { printf("0123456789abcdef0123456789abcdef\\n"); fprintf(stderr, "more and more and more\\n"); }'


@pytest.mark.parametrize("body", [ENDLESS, "for (;;) pause();", "raise(SIGSTOP); for (;;) pause();"])
async def test_an_endless_program_is_ended(executor: LocalExecutor, body: str) -> None:
    found = await executor.experiment(saxpy(), program(f'printf("begun\\n"); fflush(stdout); {body}', seconds=0.7))
    assert (found.status, found.stdout) == ("timeout", "begun\n")


async def test_a_program_that_ignores_signals_is_ended(executor: LocalExecutor) -> None:
    body = "for (int i = 1; i < 64; ++i) signal(i, SIG_IGN); " + ENDLESS
    assert (await executor.experiment(saxpy(), program(body, seconds=0.7))).status == "timeout"


@pytest.mark.skipif(not detect().seccomp, reason="this machine has no seccomp")
async def test_no_process_can_be_started(executor: LocalExecutor) -> None:
    found = await executor.experiment(saxpy(), program(BOMB))
    assert (found.status, found.stdout) == ("ended", "made 0\n")
    shell = await executor.experiment(saxpy(), program('printf("%d\\n", system("echo yes") == 0); return 0;'))
    assert shell.stdout == "0\n"


async def test_threads_are_bounded(executor: LocalExecutor) -> None:
    found = await executor.experiment(saxpy(), program(THREADS))
    assert (found.status, found.stdout) == ("ended", "no more after some\n")


async def test_memory_is_bounded(executor: LocalExecutor) -> None:
    found = await executor.experiment(saxpy(), program(HOG, seconds=20))
    assert found.status == "out_of_memory" or (found.status == "ended" and found.stdout.startswith("no more after"))


async def test_a_flood_is_cut_and_ended(executor: LocalExecutor) -> None:
    found = await executor.experiment(saxpy(), program(FLOOD, seconds=0.7))
    assert found.status == "timeout" and found.truncated
    assert len(found.stdout.encode()) == STDOUT_BYTES and len(found.stderr.encode()) == STDERR_BYTES


@pytest.mark.parametrize(
    ("body", "signal"),
    [("*(volatile int*)nullptr = 1;", "SIGSEGV"), ("abort();", "SIGABRT"), ("raise(SIGFPE);", "SIGFPE")],
)
async def test_a_crash_is_told_by_its_signal(executor: LocalExecutor, body: str, signal: str) -> None:
    found = await executor.experiment(saxpy(), program(body))
    assert (found.status, found.signal) == ("crashed", signal)


@pytest.mark.skipif(detect().level == "rlimits" or not detect().seccomp, reason="this machine has no stronger sandbox")
async def test_neither_files_nor_the_network_are_in_reach(executor: LocalExecutor, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("treasure")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        port = listener.getsockname()[1]
        body = f"""for (const char* path : {{"{secret}", "/etc/passwd", "/proc/1/environ"}})
        printf("read %d\\n", open(path, O_RDONLY) >= 0);
    for (const char* path : {{"/tmp/new", "new", "/dev/shm/new", "{tmp_path}/new"}})
        printf("write %d\\n", open(path, O_WRONLY | O_CREAT, 0600) >= 0);
    sockaddr_in to{{}};
    to.sin_family = AF_INET; to.sin_port = htons({port}); to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int s = socket(AF_INET, SOCK_STREAM, 0);
    printf("connect %d\\n", s >= 0 && connect(s, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0);
    extern char** environ;
    for (char** each = environ; *each; ++each) puts(*each);
    return 0;"""
        found = await executor.experiment(saxpy(), program(body))
    lines = found.stdout.splitlines()
    assert lines[:8] == ["read 0"] * 3 + ["write 0"] * 4 + ["connect 0"]
    names = {line.split("=")[0] for line in lines[8:]}
    assert names <= {"PATH", "LC_ALL", MARK}
    assert list(tmp_path.iterdir()) == [secret]


async def test_an_answer_on_the_judge_s_channel_is_only_text(executor: LocalExecutor) -> None:
    """What a verdict, a profile or an answer of the protocol would look like, on every descriptor it has."""
    verdict = json.dumps({"status": "accepted", "kernel": "0", "stages": [], "timings": [], "worst_error": 0})
    answers = [json.dumps({"v": 1, "id": str(n), "ok": True, "result": {"status": "accepted"}}) for n in range(60)]
    text = "\n".join([verdict, *answers]) + "\n"
    body = f"""const char said[] = {json.dumps(text)};
    for (int fd = 0; fd < 64; ++fd) if (write(fd, said, sizeof said - 1) < 0) {{}}
    return 0;"""
    found = await executor.experiment(saxpy(), program(body))
    assert (found.status, found.stdout) == ("ended", text[:STDOUT_BYTES])
    verdict_now = await executor.evaluate(saxpy(), cpp(HONEST))
    assert isinstance(verdict_now, Accepted) and verdict_now.kernel == cpp(HONEST).id
    shown = of_experiment(found)
    assert set(shown) <= {"status", "exit_code", "stdout", "stderr", "seconds", "truncated"}
    assert shown["status"] == "ended"


async def test_an_experiment_is_no_attempt_and_hands_in_no_kernel(executor: LocalExecutor) -> None:
    """Of what an action returns the run reads `kernel` (to judge it) and the device's time, never `value`."""

    class Settings:
        language = "cpp"

    class Context:
        settings, task = Settings(), saxpy()

        @property
        def attempts(self) -> object:
            raise AssertionError("an experiment looked at the ledger")

        run = journal = attempts

    context = Context()
    context.executor = executor  # type: ignore[attr-defined]

    class Seat:
        pass

    seat = Seat()
    seat.context = context  # type: ignore[attr-defined]
    text = program(
        'puts("{\\"attempt\\": \\"a99\\", \\"outcome\\": \\"kept\\", \\"seconds\\": 1e-9}"); return 0;'
    ).files
    result = await action(seat, files=text)  # type: ignore[arg-type]
    assert result.kernel is None and result.device_seconds > 0
    assert isinstance(result.value, dict) and set(result.value) == {"status", "exit_code", "stdout", "seconds"}


async def test_coder_and_analyst_have_it_and_the_planner_has_not() -> None:
    assert {role for role, tools in TOOLS.items() if any(tool.name == "experiment" for tool in tools)} == {
        "coder",
        "analyst",
    }
    assert set(Tool(action).spec.parameters["properties"]) == {"files", "flags", "seconds"}


# --------------------------------------------------------------------------------------------------------- GPU, command


def _lacking() -> str:
    try:
        find_toolkit()
    except InfrastructureError as error:
        return str(error)
    return "this machine has a GPU" if find_devices() else ""


@pytest.mark.skipif(bool(_lacking()), reason=_lacking() or "nvcc is here and no GPU")
async def test_without_a_device_a_cuda_program_is_built_and_not_run(executor: LocalExecutor) -> None:
    good = "#include <cstdio>\n__global__ void k() {}\nint main() { k<<<1, 1>>>(); return cudaDeviceSynchronize(); }\n"
    with pytest.raises(InfrastructureError, match="no CUDA device"):
        await executor.experiment(saxpy(), Program(language="cuda", files={"main.cu": good}))
    bad = Program(language="cuda", files={"main.cu": good.replace("k<<<", "nothing<<<")})
    found = await executor.experiment(saxpy(), bad)
    assert found.status == "not_built" and 'identifier "nothing"' in found.diagnostics[0].message


async def test_it_goes_through_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    async with CommandExecutor((sys.executable, "-P", "-m", "tools.jobs")) as far:
        found = await far.experiment(saxpy(), program('puts("there"); return 0;'))
    assert (found.status, found.stdout) == ("ended", "there\n")


# --------------------------------------------------------------------------------------------------------------- record


def ran(**fields: object) -> Completed:
    told = {"exit_code": 0, "signal": None, "timed_out": False, "out_of_memory": False, "stdout": "", "stderr": ""}
    return Completed(argv=("x",), seconds=1.0, truncated=False, **(told | fields))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({}, "ended"),
        ({"exit_code": 127}, "ended"),
        ({"exit_code": 139}, "crashed"),
        ({"exit_code": None, "signal": 11}, "crashed"),
        ({"exit_code": 255}, "ended"),
        ({"exit_code": 152}, "timeout"),  # SIGXCPU: its processor time is used up
        ({"exit_code": 137, "timed_out": True}, "timeout"),
        ({"exit_code": 137, "out_of_memory": True}, "out_of_memory"),
    ],
)
async def test_each_end_has_its_status(fields: dict[str, object], status: str) -> None:
    assert outcome_of(program("return 0;"), (), ran(**fields)).status == status


@pytest.mark.parametrize(
    "fields",
    [
        {"status": "ended", "seconds": 1},
        {"status": "ended", "exit_code": 0},
        {"status": "crashed", "seconds": 1},
        {"status": "timeout", "seconds": 1, "exit_code": 0},
        {"status": "not_built"},
    ],
)
async def test_a_status_decides_the_fields(fields: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="a program"):
        Experiment.model_validate({"program": "p", **fields})


async def test_nothing_is_left_of_a_program(executor: LocalExecutor) -> None:
    marker = f"left-{os.getpid()}"
    body = (
        f'prctl(PR_SET_NAME, "{marker}"); if (daemon(1, 1)) setsid(); puts("here"); fflush(stdout); for (;;) pause();'
    )
    asked = program(body, seconds=0.5)
    found = await executor.experiment(saxpy(), asked)
    assert (found.status, found.stdout) == ("timeout", "here\n")
    names = []
    for entry in Path("/proc").glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):
            names.append(entry.read_text().strip())
    assert names and marker not in names
