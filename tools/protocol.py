"""The lines that a driver and a worker exchange: jobs, answers, errors, signs of life. `docs/worker.md` is the manual.

Not covered: what an operation means (`tools.service`) and how a process is reached (`tools.job_process`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from pydantic import Field, JsonValue, ValidationError, model_validator

from tools.errors import InfrastructureError, KernelError, TaskError, WarpsmithError
from tools.machine_code import ListingRequest
from tools.program import Program
from tools.records import Kernel, Record, TargetName
from tools.task import TaskSource

VERSION: Final = 1
"""Of the lines. A field or an operation less, or with another meaning, is another version."""
FEATURES: Final = ("experiment", "listing", "metrics", "static_profile")
"""What version 1 has gained: a worker names them in its answer to a greeting, and is asked for no other."""
HEARTBEAT_SECONDS = 5.0
"""A worker that has jobs says so at least this often."""
SILENCE_SECONDS = 60.0
"""A worker that has jobs and says nothing for this long is lost."""

Operation: TypeAlias = Literal["open", "build", "evaluate", "quick", "profile", "static_profile", "experiment"]

_NEEDS: dict[Operation, str | None] = {
    "open": None,
    "build": "kernel",
    "evaluate": "kernel",
    "quick": "kernels",
    "profile": "kernel",
    "static_profile": "kernel",
    "experiment": "program",
}


class ProtocolFault(Exception):
    """A line that is not what the protocol allows; `lasting` when another try would meet it again."""

    def __init__(self, how: str, advice: str = "Try again.", *, lasting: bool = False) -> None:
        super().__init__(how)
        self.how = how
        self.advice = advice
        self.lasting = lasting


class Job(Record):
    """One job, complete in itself. Fields that the operation does not use are absent."""

    v: Literal[1] = VERSION
    id: str = Field(min_length=1, max_length=200)
    """Chosen by the driver; no two jobs in flight have the same."""
    op: Operation
    task: TaskSource
    target: TargetName | None = None
    """Absent means the target of the kernel's language, or the CPU."""
    kernel: Kernel | None = None
    kernels: tuple[Kernel, ...] | None = None
    incumbent: Kernel | None = None
    final: bool = False
    workload: str | None = None
    listing: ListingRequest | None = None
    metrics: tuple[str, ...] | None = None
    program: Program | None = None

    @model_validator(mode="after")
    def _operation_needs_its_kernel(self) -> Job:
        needed = _NEEDS[self.op]
        if needed is not None and getattr(self, needed) is None:
            raise ValueError(f"a job that is to {self.op} needs `{needed}`")
        return self

    @property
    def features(self) -> frozenset[str]:
        """What of `FEATURES` a worker needs for it."""
        used = {
            "listing": self.listing is not None,
            "metrics": bool(self.metrics),
            "experiment": self.op == "experiment",
            "static_profile": self.op == "static_profile",
        }
        return frozenset(name for name, is_used in used.items() if is_used)

    def message(self) -> dict[str, JsonValue]:
        """As it is sent."""
        given: dict[str, JsonValue] = self.model_dump(mode="json", exclude_none=True, exclude_unset=True)
        task: JsonValue = self.task.model_dump(mode="json")
        return given | {"v": VERSION, "task": task}


@dataclass(frozen=True)
class Answer:
    """One line of a worker's stdout: a result, or an error."""

    id: str | None
    """Of the job; None when the worker could not tell which line it is about."""
    result: JsonValue = None
    error: WarpsmithError | None = None
    taken_back: bool = False
    """The error is that the driver took the job back."""


@dataclass(frozen=True)
class Sign:
    """One line of a worker's stderr that belongs to the protocol."""

    id: str | None
    """Of the job; None for a sign of life without news."""
    stage: str


def read_job(message: dict[str, Any]) -> Job:
    """A job as received. Raises ProtocolFault."""
    if message.get("v") != VERSION:
        raise ProtocolFault(f"the job has protocol version {message.get('v')!r}, this worker speaks {VERSION}")
    try:
        json.dumps(message, ensure_ascii=False).encode()
        return Job.model_validate(message)
    except UnicodeEncodeError:
        raise ProtocolFault("the job can't be understood: it has half of a surrogate pair, which is no text") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ProtocolFault(f"the job can't be understood: {where + ': ' if where else ''}{first['msg']}") from error


def read_message(line: bytes) -> dict[str, Any]:
    """A line's JSON object. Raises ProtocolFault."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        message = None
    if not isinstance(message, dict):
        raise ProtocolFault(f"it said something that is no JSON object: {_quoted(line)}")
    return message


def read_answer(line: bytes) -> Answer:
    """A line of a worker's stdout. Raises ProtocolFault."""
    try:
        message = read_message(line)
    except ProtocolFault as fault:
        fault.advice = "Only answers may be on its standard output; a login shell's words belong on standard error."
        raise
    if message.get("v", VERSION) != VERSION:
        how = f"it speaks protocol version {message['v']!r} and this warpsmith {VERSION}"
        raise ProtocolFault(how, "Put the same warpsmith on both machines.", lasting=True)
    job, ok = message.get("id"), message.get("ok")
    if "v" not in message or not (job is None or isinstance(job, str)) or not isinstance(ok, bool):
        raise ProtocolFault(f"it said something that is no answer: {_quoted(line)}")
    if ok:
        return Answer(job, message.get("result"))
    try:
        error = message["error"]
        return Answer(job, error=_error(error), taken_back=error["kind"] == "cancelled")
    except (KeyError, TypeError) as fault:
        raise ProtocolFault(f"it answered with an error that has not its fields: {_quoted(line)}") from fault


def read_sign(line: bytes) -> Sign | None:
    """A line of a worker's stderr; None when it is not the protocol's."""
    if not line.startswith(b"{"):
        return None
    try:
        message = read_message(line)
    except ProtocolFault:
        return None
    job, stage = message.get("id"), message.get("stage")
    known = message.get("v") == VERSION and isinstance(stage, str) and (job is None or isinstance(job, str))
    return Sign(job, str(stage)) if known else None


def answered(job: str | None, result: JsonValue) -> dict[str, JsonValue]:
    """The answer with a result."""
    return {"v": VERSION, "id": job, "ok": True, "result": result}


def failed(
    job: str | None, kind: str, message: str, advice: str = "", fault: str | None = None
) -> dict[str, JsonValue]:
    """The answer with an error."""
    error: JsonValue = {"kind": kind, "fault": fault, "message": message, "advice": advice}
    return {"v": VERSION, "id": job, "ok": False, "error": error}


def failure(job: str | None, error: WarpsmithError) -> dict[str, JsonValue]:
    """The answer with an expected error."""
    if isinstance(error, TaskError):
        return failed(job, "task", error.message, error.advice, error.fault)
    kind = "kernel" if isinstance(error, KernelError) else "infrastructure"
    return failed(job, kind, error.message, error.advice)


def encoded(message: dict[str, JsonValue]) -> bytes:
    """A message as a line."""
    return json.dumps(message).encode() + b"\n"


def _error(error: dict[str, Any]) -> WarpsmithError:
    message, advice = str(error["message"]), str(error.get("advice", ""))
    if error["kind"] == "task":
        return TaskError(error["fault"], message, advice)
    if error["kind"] == "kernel":
        return KernelError(message, advice)
    return InfrastructureError(message, advice)


def _quoted(line: bytes) -> str:
    text = line.decode(errors="replace").strip()
    return repr(text if len(text) <= 120 else text[:117] + "...")
