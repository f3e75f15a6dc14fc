"""Content made beside a build, and content that a device keeps and changes: the host stands in for the device."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from small_tasks import saxpy

from tools.ahead import KEPT, Ahead, Drawn
from tools.buffers import Value, WorkloadBuffers
from tools.content import POOL, ContentSource
from tools.errors import TaskError
from tools.reference import Inputs, Reference, load_reference


class Kept:
    """A draw that is scaled into the inputs."""

    open = 0

    def __init__(self, buffers: Keeping, values: Mapping[str, Value]) -> None:
        self.buffers, self.values = buffers, dict(values)
        Kept.open += 1

    def write_changed(self) -> Callable[[], dict[str, Any]]:
        factor = np.float32(np.random.default_rng().uniform(0.5, 1))
        changed: dict[str, Any] = dict(self.values)
        changed |= {name: v * factor for name, v in changed.items() if isinstance(v, np.ndarray)}
        self.buffers.write(changed)
        return lambda: changed

    def close(self) -> None:
        Kept.open -= 1


class Keeping(WorkloadBuffers):
    """Buffers of a device that keeps content."""

    keeps_content = True

    def changeable(self, values: Mapping[str, Value]) -> Kept:
        return Kept(self, values)


class Single(Reference):
    """Notes every draw, and that the task's code is never run by two threads at once."""

    draws: list[str]
    busy: threading.Lock

    def draw(self, workload: int, rng_seed: int, distribution: str = "given") -> Inputs:
        assert self.busy.acquire(blocking=False)
        try:
            self.draws.append(distribution)
            return super().draw(workload, rng_seed, distribution)
        finally:
            self.busy.release()


@pytest.fixture
def source() -> Iterator[tuple[ContentSource, Single]]:
    reference = load_reference(saxpy())
    reference.__class__ = Single
    assert isinstance(reference, Single)
    reference.draws, reference.busy = [], threading.Lock()
    signatures = [reference.signature(index) for index in range(len(reference.workloads))]
    buffers = [Keeping(signature, signatures) for signature in signatures]
    yield ContentSource(reference, buffers, "strict"), reference
    for each in buffers:
        each.close()


def right(content: Any) -> bool:
    return bool(content.check(content.reference.baseline(content.workload, content.inputs)).ok)


def test_timed_content_differs_from_call_to_call_without_a_draw(source: tuple[ContentSource, Single]) -> None:
    content, reference = source
    seen = set()
    for _ in range(6 * POOL):
        timed = content.timed(0)
        seen.add(b"".join(v.tobytes() for v in timed.inputs.values() if isinstance(v, np.ndarray)))
        assert right(timed)
    assert len(seen) == 6 * POOL
    assert len(reference.draws) == POOL and content.recycles(0)
    assert Kept.open == POOL
    content.forget()
    assert Kept.open == 0


def test_what_was_drawn_ahead_is_used_once_and_in_one_thread(source: tuple[ContentSource, Single]) -> None:
    content, reference = source
    content.draw_ahead([(0, "given"), (0, "shifted"), (0, "given")])
    deadline = time.monotonic() + 60
    while len(reference.draws) < 3 + POOL * len(reference.workloads) and time.monotonic() < deadline:
        time.sleep(0.001)
    drawn = len(reference.draws)
    one, other, shifted = content.fresh(0), content.fresh(0), content.fresh(0, "shifted")
    assert len(reference.draws) == drawn, "all of them were there"
    assert one.inputs is not other.inputs and right(one) and right(other) and right(shifted)
    for _ in range(3):
        assert right(content.timed(0))
    assert len(reference.draws) == drawn, "what is kept too"
    content.fresh(0)
    assert len(reference.draws) == drawn + 1
    content.forget()


def test_asking_ends_the_making_at_once_and_forgetting_leaves_nothing() -> None:
    going, go = threading.Event(), threading.Event()

    def make(wanted: tuple[int, str]) -> Drawn:
        going.set()
        assert go.wait(60)
        return Drawn({"x": np.zeros(4)}, None)

    ahead = Ahead(make)
    ahead.begin([(0, "given"), (1, KEPT)])
    assert going.wait(60)
    go.set()
    ahead.join()
    made = [ahead.take((0, "given")), ahead.take((0, "given")), ahead.take((1, KEPT)), ahead.take((2, "given"))]
    assert made[0] is not None and made[1] is None and made[3] is None
    ahead.begin([(0, "given")])
    ahead.forget()
    assert ahead.take((0, "given")) is None


def test_what_fails_is_left_to_whoever_asks() -> None:
    def make(wanted: tuple[int, str]) -> Drawn:
        raise TaskError("raised", "the task's own fault")

    ahead = Ahead(make)
    ahead.begin([(0, "given")])
    assert ahead.take((0, "given")) is None
