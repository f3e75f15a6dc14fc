"""The executor: typed results, restarts, cancellation, and nothing left behind."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
from collections.abc import AsyncIterator, Callable

import pytest
from small_tasks import ASLEEP, ENDLESS, HONEST, SAXPY, SLOW, cpp, saxpy

from tools.errors import InfrastructureError, KernelError, TaskError
from tools.executor import LocalExecutor
from tools.process import descendants, is_running
from tools.records import Accepted

STAGES_SEEN = {"reference", "audit", "hardware", "baseline", "build", "correct", "time"}


@pytest.fixture
async def executor() -> AsyncIterator[LocalExecutor]:
    async with LocalExecutor() as opened:
        yield opened


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0.01)


def service_of(executor: LocalExecutor) -> int:
    assert executor._service is not None
    return executor._service._process.pid


async def test_every_operation_returns_its_record() -> None:
    stages: list[str] = []
    async with LocalExecutor(stages.append) as executor:
        task = saxpy()
        facts = await executor.open(task)
        assert [workload.workload for workload in facts.workloads] == ["even", "odd"]
        assert (await executor.build(task, cpp(HONEST))).built
        verdict = await executor.evaluate(task, cpp(HONEST))
        assert isinstance(verdict, Accepted), verdict
        results = await executor.quick(task, [cpp(HONEST), cpp(SLOW)], cpp(SLOW))
        assert [result.status for result in results] == ["timed", "timed"]
        assert set(stages) >= STAGES_SEEN
        stages.clear()
        assert await executor.open(task) == facts
        assert stages == ["begun"]


async def test_errors_arrive_as_they_were_raised(executor: LocalExecutor) -> None:
    with pytest.raises(TaskError) as broken:
        await executor.open(saxpy(files={"saxpy.py": SAXPY.replace("2 * x + y", "1 / 0")}))
    assert broken.value.fault == "raised"
    with pytest.raises(KernelError, match="not allowed"):
        await executor.build(saxpy(), cpp(HONEST).model_copy(update={"flags": ("-include/etc/passwd",)}))


async def test_a_task_that_ends_the_judge_s_process_is_a_fault_of_the_task(executor: LocalExecutor) -> None:
    deadly = SAXPY.replace("    return 2 * x + y", "    import os\n    os._exit(3)")
    with pytest.raises(TaskError) as caught:
        await executor.open(saxpy(files={"saxpy.py": deadly}))
    assert caught.value.fault == "raised"
    assert "exit code 3" in caught.value.message
    assert (await executor.open(saxpy())).task  # and another task still works


@pytest.mark.parametrize("victim", ["keeper", "judge"])
async def test_a_service_that_is_killed_is_replaced_and_the_request_repeated(victim: str) -> None:
    stages: list[str] = []
    async with LocalExecutor(stages.append) as executor:
        job = asyncio.create_task(executor.evaluate(saxpy(), cpp(HONEST)))
        await until(lambda: "reference" in stages)
        first = service_of(executor)
        started = descendants(first)
        os.kill(first if victim == "keeper" else started[0], signal.SIGKILL)
        assert isinstance(await job, Accepted)
        assert stages.count("reference") == 2
        assert service_of(executor) != first
        assert not any(is_running(pid) for pid in (first, *started))


async def test_a_service_that_can_not_start_is_an_infrastructure_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONSTARTUP", "")
    monkeypatch.setattr("sys.executable", "/nonexistent/python")
    async with LocalExecutor() as executor:
        with pytest.raises(InfrastructureError):
            await executor.open(saxpy())


async def test_cancelling_kills_the_running_job_and_lets_others_go_on() -> None:
    stages: list[str] = []
    async with LocalExecutor(stages.append) as executor:
        endless = asyncio.create_task(executor.open(saxpy(files={"saxpy.py": ASLEEP})))
        await until(lambda: "reference" in stages)
        first = service_of(executor)
        waiting = asyncio.create_task(executor.build(saxpy(), cpp(HONEST)))
        taken_back = asyncio.create_task(executor.build(saxpy(), cpp(SLOW)))
        await asyncio.sleep(0)  # both are asked for
        started = descendants(first)
        taken_back.cancel()
        endless.cancel()
        for cancelled in (endless, taken_back):
            with pytest.raises(asyncio.CancelledError):
                await cancelled
        assert not any(is_running(pid) for pid in (first, *started))
        assert (await waiting).built


async def test_close_leaves_nothing_behind_even_in_the_middle_of_a_job() -> None:
    stages: list[str] = []
    executor = LocalExecutor(stages.append)
    job = asyncio.create_task(executor.evaluate(saxpy(), cpp(ENDLESS)))
    await until(lambda: "correct" in stages)
    service = service_of(executor)
    started = descendants(service)
    assert started
    job.cancel()
    await executor.close()
    assert not any(is_running(pid) for pid in (service, *started))
    await executor.close()


async def test_calls_at_the_same_time_are_all_answered(executor: LocalExecutor) -> None:
    kernels = [cpp(f"{HONEST}// {index}\n") for index in range(4)]
    reports = await asyncio.gather(*(executor.build(saxpy(), kernel) for kernel in kernels))
    assert [report.kernel for report in reports] == [kernel.id for kernel in kernels]
    assert all(report.built for report in reports)


async def test_secrets_of_the_environment_do_not_reach_the_judge(
    executor: LocalExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXAMPLE_API_KEY", "sk-secret")
    peek = "import os\nassert 'EXAMPLE_API_KEY' not in os.environ\n" + SAXPY
    assert (await executor.open(saxpy(files={"saxpy.py": peek}))).task


async def test_kernels_are_utf8_whatever_the_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}.items():
        monkeypatch.setenv(name, value)
    async with LocalExecutor() as executor:
        report = await executor.build(saxpy(), cpp(f"// größer → schneller {secrets.token_hex(8)}\n{HONEST}"))
        assert report.built and not report.cached
