"""The judge's process: reads requests as JSON lines on stdin and answers them on stdout, one job at a time.

request  {"v": 1, "id": "7", "op": "open" (or another Operation of tools.protocol), "task": {TaskSource}, ...}
         {"v": 1, "id": "7", "op": "cancel"} takes back a request that has not begun
         "target": "cpu" | "cuda" is optional: a request with a kernel means the target of the kernel's language
answer   {"v": 1, "id": "7", "ok": true, "result": ...}
         {"v": 1, "id": "7", "ok": false, "error": {"kind": "task" | "kernel" | "infrastructure" | "cancelled",
          "fault": ..., "message": ..., "advice": ...}}
progress {"v": 1, "id": "7", "stage": "correct"} on stderr, among whatever the task's own code prints

The end of stdin ends the process and everything it started, whatever it is doing. An unexpected exception ends it too,
with its traceback on stderr: a judge that met a fault of its own is not trusted to go on.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import json
import os
import queue
import signal
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import IO, Any, TypeAlias

from pydantic import BaseModel, JsonValue, TypeAdapter, ValidationError

from tools.deviceless import DevicelessJudge
from tools.errors import InfrastructureError, KernelError, TaskError, WarpsmithError
from tools.experiment import run_experiment
from tools.judge import Judge, load_task
from tools.listing import cut
from tools.machine_code import ListingRequest
from tools.no_device import NO_DEVICE, NO_PYCUDA
from tools.opening import bounded_memory
from tools.process import descendants, is_running
from tools.program import Program
from tools.protocol import VERSION
from tools.records import Kernel, TargetName
from tools.screen import screen
from tools.targets.choice import target_of
from tools.targets.cuda import CudaTarget
from tools.targets.cuda_toolkit import find_devices
from tools.task import TaskSource

OPEN_JUDGES = 3
"""Tasks that stay open; the one used longest ago is closed for a new one."""
END_SECONDS = 3.0
_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG

Request = dict[str, Any]
AnyJudge: TypeAlias = Judge | DevicelessJudge


class Service:
    """Answers requests. Its methods are named after the operations."""

    def __init__(self, answers: IO[str]) -> None:
        self._answers = answers
        self._judges: OrderedDict[tuple[str, TargetName], AnyJudge] = OrderedDict()

    def answer(self, request: Request) -> None:
        """Do one request and write its answer."""
        job = str(request["id"])
        operations: dict[str, Callable[[AnyJudge, Request], JsonValue]] = {
            "open": lambda judge, _: _plain(_with_device(judge).facts),
            "build": _build,
            "evaluate": _evaluate,
            "quick": _quick,
            "profile": _profile,
            "static_profile": _static_profile,
            "experiment": _experiment,
        }
        try:
            judge = self._judge(TaskSource.model_validate(request["task"]), _target(request), job)
            result = operations[request["op"]](judge, request)
        except (KeyError, ValidationError) as error:
            self.fail(job, "infrastructure", f"the request can't be understood: {error}")
        except TaskError as error:
            self.fail(job, "task", error.message, error.advice, error.fault)
        except KernelError as error:
            self.fail(job, "kernel", error.message, error.advice)
        except WarpsmithError as error:
            self.fail(job, "infrastructure", error.message, error.advice)
        else:
            self._write({"v": VERSION, "id": job, "ok": True, "result": result})

    def foresee(self, request: Request) -> None:
        """Begin to build what a request that still waits is about, if its judge is there and kernels do not run on the
        cores that compile. From another thread; what is wrong with the request shows when its turn comes."""
        with contextlib.suppress(KeyError, ValidationError, WarpsmithError):
            if request["op"] in ("evaluate", "quick"):
                judge = self._judges.get((TaskSource.model_validate(request["task"]).id, _target(request)))
                if isinstance(judge, Judge) and not judge.device.shares_cores:
                    asked = request["kernels"] if request["op"] == "quick" else [request["kernel"]]
                    wanted = [kernel for kernel in map(_kernel, asked) if not screen(kernel)]
                    judge.compilers.begin([each for each in wanted if each.language != "torch"])  # they use the device

    def fail(self, job: str, kind: str, message: str, advice: str = "", fault: str | None = None) -> None:
        """Answer with an error."""
        error = {"kind": kind, "fault": fault, "message": message, "advice": advice}
        self._write({"v": VERSION, "id": job, "ok": False, "error": error})

    def _judge(self, source: TaskSource, target: TargetName, job: str) -> AnyJudge:
        def progress(stage: str) -> None:
            sys.stderr.write(json.dumps({"v": VERSION, "id": job, "stage": stage}) + "\n")
            sys.stderr.flush()

        progress("begun")
        key = (source.id, target)
        judge = self._judges.get(key)
        if judge is None:
            while len(self._judges) >= OPEN_JUDGES:
                self._judges.popitem(last=False)[1].close()
            judge = self._judges[key] = _load(source, target, progress)
        self._judges.move_to_end(key)
        judge.progress = progress
        return judge

    def _write(self, answer: dict[str, Any]) -> None:
        self._answers.write(json.dumps(answer) + "\n")
        self._answers.flush()


def _target(request: Request) -> TargetName:
    """The target that a request is about."""
    if "target" in request:
        return TypeAdapter[TargetName](TargetName).validate_python(request["target"])
    kernels = [request["kernel"]] if "kernel" in request else request.get("kernels", [])
    read = [_kernel(kernel) for kernel in kernels]
    languages = [kernel.language for kernel in read]
    if "program" in request:
        languages.append(_program(request["program"]).language)
    return target_of(languages, read)


def _load(source: TaskSource, target: TargetName, progress: Callable[[str], None]) -> AnyJudge:
    if target == "cuda":
        why = _no_judging()
        if why is not None:
            with bounded_memory():
                return DevicelessJudge(source, CudaTarget(), progress, why)
    return load_task(source, target, progress)


def _no_judging() -> str | None:
    """Why there is no judging on a GPU here."""
    if not find_devices():
        return NO_DEVICE
    if importlib.util.find_spec("pycuda") is None:
        return NO_PYCUDA
    return None


def _with_device(judge: AnyJudge) -> Judge:
    if isinstance(judge, DevicelessJudge):
        raise judge.refusal
    judge.open()
    return judge


def _build(judge: AnyJudge, request: Request) -> JsonValue:
    kernel = _kernel(request["kernel"])
    report = judge.build(kernel)
    if "listing" not in request or not report.built:
        return _plain(report)
    if kernel.language == "torch":
        raise KernelError("the machine code of a torch kernel is not listed", "Ask Triton or nvcc in the kernel.")
    asked = ListingRequest.model_validate(request["listing"])
    text = judge.target.listing(judge.build_variant(kernel, "release"), asked.function, asked.form)
    return _plain(report.model_copy(update={"listing": cut(text, asked)}))


def _experiment(judge: AnyJudge, request: Request) -> JsonValue:
    return _plain(run_experiment(judge, _program(request["program"])))


def _evaluate(judge: AnyJudge, request: Request) -> JsonValue:
    if isinstance(judge, DevicelessJudge):
        return _plain(judge.evaluate(_kernel(request["kernel"])))
    incumbent = request.get("incumbent")
    verdict = judge.evaluate(
        _kernel(request["kernel"]), _kernel(incumbent) if incumbent else None, final=bool(request.get("final"))
    )
    return _plain(verdict)


def _quick(judge: AnyJudge, request: Request) -> JsonValue:
    incumbent = request.get("incumbent")
    kernels = [_kernel(kernel) for kernel in request["kernels"]]
    return [_plain(result) for result in _with_device(judge).quick(kernels, _kernel(incumbent) if incumbent else None)]


def _profile(judge: AnyJudge, request: Request) -> JsonValue:
    from tools.profilers import cpu, cuda, torch

    kernel, workload, metrics = _kernel(request["kernel"]), request.get("workload"), tuple(request.get("metrics") or ())
    if kernel.language == "torch" and not metrics:
        return _plain(torch.profile_kernel(_with_device(judge), kernel, workload))
    if judge.target.name == "cuda" and kernel.language != "torch":
        return _plain(cuda.profile_kernel(_with_device(judge), kernel, workload, metrics))
    if metrics:
        what = "profile of a torch kernel" if kernel.language == "torch" else "CPU's profiler"
        raise KernelError(f"the {what} takes no further metrics, as {metrics[0]}", "Leave them out.")
    return _plain(cpu.profile_kernel(_with_device(judge), kernel, workload))


def _static_profile(judge: AnyJudge, request: Request) -> JsonValue:
    from tools.profilers import cuda

    why = judge.refusal.message if isinstance(judge, DevicelessJudge) else "they were not asked for"
    return _plain(cuda.static_profile(judge, _kernel(request["kernel"]), why))


def _kernel(value: object) -> Kernel:
    return Kernel.model_validate(value)


def _program(value: object) -> Program:
    return Program.model_validate(value)


def _plain(record: BaseModel) -> JsonValue:
    plain: JsonValue = record.model_dump(mode="json")
    return plain


def _read_requests(
    lines: IO[str], requests: queue.SimpleQueue[Request | None], cancelled: set[str], service: Service
) -> None:
    """Queue requests; at the end of the stream end this process and all that it started."""
    for line in lines:
        request: Request = json.loads(line)
        if request.get("op") == "cancel":
            cancelled.add(str(request["id"]))
        else:
            requests.put(request)
            service.foresee(request)
    deadline = time.monotonic() + END_SECONDS
    while (running := [pid for pid in descendants(os.getpid()) if is_running(pid)]) and time.monotonic() < deadline:
        for pid in running:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.001)
    os._exit(0)  # what the other thread starts in between has this process's death as its own


def _take_channel() -> tuple[IO[str], IO[str]]:
    """Keep stdin and stdout for the protocol, out of the reach of user code that reads or prints."""
    lines = os.fdopen(os.dup(0), "r", encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return lines, answers


def main() -> None:
    """Serve until stdin ends."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    lines, answers = _take_channel()
    requests: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
    cancelled: set[str] = set()
    service = Service(answers)
    threading.Thread(target=_read_requests, args=(lines, requests, cancelled, service), daemon=True).start()
    while (request := requests.get()) is not None:
        if request.get("v") != VERSION:
            raise InfrastructureError(f"the request has protocol version {request.get('v')} instead of {VERSION}")
        if str(request["id"]) in cancelled:
            service.fail(str(request["id"]), "cancelled", "the request was taken back")
        else:
            service.answer(request)


if __name__ == "__main__":
    main()
