"""What the judge and a worker say to each other, byte for byte as in tools/native/worker.cpp, and what reports mean."""

from __future__ import annotations

import signal as signals
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from tools.buffers import OutputBuffers, WorkloadBuffers
from tools.messages import MESSAGE, MESSAGE_BYTES, REQUEST, Kind, Place
from tools.records import Diagnostic, Reason
from tools.sanitizers import read_report

_PLAN, _WORKLOAD, _SLOT = struct.Struct("=I"), struct.Struct("=iiII"), struct.Struct("=IIQQQ")
_KIND = {"input": 0, "output": 1, "value": 2, "scalar": 3}


@dataclass(frozen=True)
class Message:
    nonce: int
    kind: Kind
    number: int
    """Signal, system call or exit code."""
    value: int
    """Nanoseconds of a call, or the address of a fault."""
    workload: int
    slot: int
    place: Place
    write: bool | None
    text: str


class WorkerFailed(Exception):
    """The worker ended or broke a rule. It is dead when this is raised."""

    def __init__(
        self,
        reason: Reason,
        message: str,
        output: str = "",
        details: Mapping[str, JsonValue] | None = None,
        diagnostics: Sequence[Diagnostic] = (),
    ) -> None:
        super().__init__(message)
        self.reason: Reason = reason
        """crashed, exited, timeout, out_of_memory, forbidden_syscall, output_flood, forged_answer, input_modified
        (a write to a read-only input faults), no_entry (the library does not load) or memory_error (asan variant)."""
        self.message = message
        """A phrase with the kernel as its subject: "wrote past the end of `out`", "called socket, which …"."""
        self.output = output
        """What it printed, stdout and stderr together, trimmed."""
        self.details = dict(details or {})
        self.diagnostics = tuple(diagnostics)
        """By source line, from the sanitizers' report."""


def encode_plan(buffers: Sequence[WorkloadBuffers], outputs: Sequence[OutputBuffers]) -> bytes:
    """The message that tells a worker what to map and how to fill `task::Args`."""
    return _PLAN.pack(len(buffers)) + b"".join(
        _WORKLOAD.pack(inputs.read_only_fd, output.fd, len(inputs.slots), 0) + b"".join(_encode_slots(inputs, output))
        for inputs, output in zip(buffers, outputs, strict=True)
    )


def _encode_slots(inputs: WorkloadBuffers, outputs: OutputBuffers) -> Iterator[bytes]:
    for slot in inputs.slots:
        if slot.kind == "value":
            yield _SLOT.pack(_KIND[slot.kind], 0, 0, 0, slot.value % 2**64)
        else:
            span = (outputs if slot.kind == "output" else inputs).spans[slot.name]
            yield _SLOT.pack(_KIND[slot.kind], 0, span.offset, span.bytes, 0)


def encode_request(nonce: int, workload: int) -> bytes:
    """`workload` -1 asks for an empty answer."""
    return REQUEST.pack(nonce, workload, 0)


def decode(data: bytes) -> Message | None:
    """None when the bytes are no message."""
    if len(data) != MESSAGE_BYTES:
        return None
    nonce, kind, number, value, workload, slot, place, write, text = MESSAGE.unpack(data)
    try:
        return Message(
            nonce,
            Kind(kind),
            number,
            value,
            workload,
            slot,
            Place(place),
            None if write < 0 else bool(write),
            text.rstrip(b"\0").decode(errors="replace"),
        )
    except ValueError:
        return None


def explain(message: Message | None, buffers: Sequence[WorkloadBuffers], memory: int, output: str) -> WorkerFailed:
    """The failure that a worker reported, or forged_answer when what it sent is no report. `memory` is its limit."""
    if (sanitized := _sanitizer_report(output)) is not None:
        return sanitized
    match message:
        case Message(kind=Kind.FAULT):
            failure = _explain_fault(message, buffers, memory, output)
        case Message(kind=Kind.FORBIDDEN):
            call = message.text or f"system call {message.number}"
            failure = WorkerFailed(
                "forbidden_syscall", f"called {call}, which a kernel may not", output, {"call": call}
            )
        case Message(kind=Kind.EXIT):
            failure = WorkerFailed("exited", f"exited with code {message.number} instead of returning", output)
        case Message(kind=Kind.EXCEPTION):
            failure = WorkerFailed("crashed", f"threw an exception: {message.text}", output)
        case Message(kind=Kind.NO_MEMORY):
            failure = no_memory(memory, output)
        case Message(kind=Kind.DEVICE_FAULT):
            failure = _explain_device_fault(message.text, output)
        case Message(kind=Kind.NOT_LOADED):
            failure = WorkerFailed("no_entry", f"can't be loaded: {message.text}", output)
        case _:
            failure = WorkerFailed("forged_answer", "sent an answer that nothing had asked for", output)
    return failure


def explain_exit(code: int, memory: int, output: str) -> WorkerFailed:
    """The failure of a worker that ended without a report; `code` as Popen or a launcher gives it."""
    number = -code if code < 0 else code - 128 if code > 128 else 0
    if (sanitized := _sanitizer_report(output)) is not None:
        return sanitized
    if number == signals.SIGKILL:
        return no_memory(memory, output)
    if number == signals.SIGSYS:
        message = "made a system call that a kernel may not make, as `system`, `kill` and `ptrace` do"
        return WorkerFailed("forbidden_syscall", message, output, {"call": "unknown"})
    if number:
        return WorkerFailed("crashed", f"crashed ({_name(number)})", output, {"signal": _name(number)})
    return WorkerFailed("exited", f"exited with code {code} instead of returning", output)


def oom_kills() -> int | None:
    """How often the system killed a process for want of memory since boot; None where it does not say."""
    try:
        lines = Path("/proc/vmstat").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), None)


def no_memory(memory: int, output: str) -> WorkerFailed:
    return WorkerFailed("out_of_memory", f"asked for more memory than its {memory / 2**20:.0f} MiB", output)


def _sanitizer_report(output: str) -> WorkerFailed | None:
    report = read_report(output)
    if report is None:
        return None
    return WorkerFailed("memory_error", report.summary, output, diagnostics=report.diagnostics)


def _explain_fault(message: Message, buffers: Sequence[WorkloadBuffers], memory: int, output: str) -> WorkerFailed:
    signal = _name(message.number)
    details: dict[str, JsonValue] = {"signal": signal}
    if message.number == signals.SIGABRT and "std::bad_alloc" in output:
        return no_memory(memory, output)
    what = _UNADDRESSED.get(message.number)
    if what is not None:
        last = output.strip().splitlines()[-1:]
        return WorkerFailed("crashed", f"{what} ({signal})" + (f": {last[0][:200]}" if last else ""), output, details)
    details["address"] = f"{message.value:#x}"
    did = {True: "wrote", False: "read", None: "reached"}[message.write]
    slot = _slot_name(message, buffers)
    if slot is not None and message.place != Place.SCRATCH:
        kind, name = slot
        details.update({kind: name, "workload": message.workload})
        if message.place == Place.INSIDE and kind == "input":
            return WorkerFailed("input_modified", f"wrote to the input `{name}`", output, details)
        where = {Place.BEFORE: "before the start of", Place.AFTER: "past the end of"}.get(message.place, "inside")
        return WorkerFailed("crashed", f"{did} {where} the {kind} `{name}` ({signal})", output, details)
    if message.place == Place.SCRATCH:
        return WorkerFailed("crashed", f"{did} outside the scratch memory ({signal})", output, details)
    null = " (a null pointer)" if message.value < 1 << 16 else ""
    return WorkerFailed("crashed", f"{did} invalid memory at {message.value:#x}{null} ({signal})", output, details)


def _explain_device_fault(error: str, output: str) -> WorkerFailed:
    reason, words = _DEVICE_FAULTS.get(error, ("crashed", "failed on the device"))
    return WorkerFailed(reason, f"{words} ({error})", output, {"error": error})


_DEVICE_FAULTS: dict[str, tuple[Reason, str]] = {
    "CUDA_ERROR_ILLEGAL_ADDRESS": ("crashed", "reached memory that is not its own, or wrote to an input"),
    "CUDA_ERROR_MISALIGNED_ADDRESS": ("crashed", "reached memory at an address that is not aligned for its type"),
    "CUDA_ERROR_ASSERT": ("crashed", "failed an assertion on the device"),
    "CUDA_ERROR_LAUNCH_FAILED": ("crashed", "was stopped by a trap or another exception on the device"),
    "CUDA_ERROR_HARDWARE_STACK_ERROR": ("crashed", "used more stack than there is, or broke it"),
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": ("crashed", "ran an illegal instruction on the device"),
    "CUDA_ERROR_INVALID_ADDRESS_SPACE": ("crashed", "used an address of another kind of memory"),
    "CUDA_ERROR_OUT_OF_MEMORY": ("out_of_memory", "asked for more memory than the device has"),
}
_UNADDRESSED: dict[int, str] = {
    signals.SIGFPE: "divided an integer by zero",
    signals.SIGILL: "ran an illegal instruction",
    signals.SIGABRT: "aborted",
}


def _slot_name(message: Message, buffers: Sequence[WorkloadBuffers]) -> tuple[str, str] | None:
    if message.place == Place.ELSEWHERE or not 0 <= message.workload < len(buffers):
        return None
    slots = buffers[message.workload].slots
    return (slots[message.slot].kind, slots[message.slot].name) if 0 <= message.slot < len(slots) else None


def _name(number: int) -> str:
    try:
        return signals.Signals(number).name
    except ValueError:
        return f"signal {number}"
