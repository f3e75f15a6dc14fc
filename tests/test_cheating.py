"""Every known way of looking fast without being right, against the real judge; and the honest kernels that resemble it.

Not covered here: the `torch` and `cuda` languages, and rows that no native CPU kernel can express (the manifest says
why).
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from adversary import KERNELS, MANIFEST, TASKS, Case, Judges, benign, cheating, explain, harmless, outcome, too_busy

from tools.errors import KernelError
from tools.records import Accepted, Diagnostic, Kernel
from tools.sandbox import Level, attempt

CATALOGUE = [
    *("T1", "T2", "T3", "T4", "T6", "T7", "T9", "T11", "T13", "T14", "T16", "T17", "T19", "T20"),
    *("C1", "C2", "C4", "C6", "C7", "C8", "C9", "C10", "C11", "C12", "C13", "C15", "C17", "C19", "C20", "C21", "C24"),
    *("C25", "F1", "F2", "F3", "F4", "F5", "F8", "H1", "H3", "H4", "H5"),
]
CHEATING, BENIGN, HARMLESS = cheating(), benign(), harmless()
ALL = [*CHEATING, *BENIGN, *(trick for trick, _ in HARMLESS)]


def firm(case: Case) -> bool:
    """Whether a busy machine is no excuse: the kernel lies about its own time, and its own processor time says so."""
    return all(each.endswith((":clocks_disagree", ":forbidden_source", ":forbidden_syscall")) for each in case.expect)


def no_trip_wires(kernel: Kernel) -> tuple[Diagnostic, ...]:
    return ()


def by_name(cases: list[Case]) -> list[object]:
    return [pytest.param(case, id=case.name) for case in cases]


def test_every_row_of_the_catalogue_is_met_or_explained() -> None:
    met = {entry["id"] for entry in MANIFEST["cheating"]}
    explained = {entry["id"] for entry in MANIFEST["not_expressible"]}
    assert not met & explained
    assert set(CATALOGUE) <= met | explained
    assert all(entry["why"] for entry in MANIFEST["not_expressible"])


def test_every_fixture_is_in_the_manifest() -> None:
    listed = {case.path for case in ALL}
    assert listed == {path for folder in ("cheating", "benign") for path in (KERNELS / folder).iterdir()}


@pytest.mark.parametrize("case", by_name([*CHEATING, *BENIGN]))
def test_fixture_says_its_trick_and_the_defence(case: Case) -> None:
    first, second = case.kernel().files["kernel.cpp"].splitlines()[:2]
    words = ("// Trick: ", "// Defence: ") if case.folder == "cheating" else ("// Looks like: ", "// Honest: ")
    assert first.startswith(words[0])
    assert second.startswith(words[1])


SECRET_VALUE = "the-answer-is-42"


@pytest.fixture(scope="module")
def judges(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judges]:
    """With a file and an environment variable of the user's that no kernel may read, neither built nor run."""
    private = tmp_path_factory.mktemp("private") / "reference.py"
    private.write_text(f'static const char* stolen = "{SECRET_VALUE}";\n')
    asked = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    wanted = {params[key] for params in asked for key in ("case", "trick", "honest") if key in params}
    with pytest.MonkeyPatch.context() as patch, Judges([case for case in ALL if case in wanted], private) as opened:
        patch.setenv("WARPSMITH_TEST_SECRET", SECRET_VALUE)
        yield opened


@pytest.mark.parametrize("case", by_name(CHEATING))
def test_cheat_is_rejected_for_the_right_reason(case: Case, judges: Judges) -> None:
    verdict = judges.evaluate(case)
    assert outcome(verdict) in case.expect or (too_busy(verdict) and not firm(case)), explain(verdict)
    assert SECRET_VALUE not in verdict.model_dump_json()


@pytest.mark.parametrize("case", by_name([case for case in CHEATING if case.has_structural_defence]))
def test_cheat_is_met_without_the_static_trip_wires(
    case: Case, judges: Judges, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tools.stages.screen", no_trip_wires)
    verdict = judges.evaluate(case)
    excused = too_busy(verdict) and not firm(case)
    assert outcome(verdict) in case.expect - {"screen:forbidden_source"} or excused, explain(verdict)
    assert SECRET_VALUE not in verdict.model_dump_json()


@pytest.mark.parametrize("case", by_name(BENIGN))
def test_honest_twin_is_accepted(case: Case, judges: Judges) -> None:
    verdict = judges.evaluate(case)
    assert isinstance(verdict, Accepted) or too_busy(verdict), explain(verdict)


@pytest.mark.parametrize(("trick", "honest"), [pytest.param(*pair, id=pair[0].name) for pair in HARMLESS])
def test_trick_without_effect_gains_nothing(trick: Case, honest: Case, judges: Judges) -> None:
    verdict = judges.evaluate(trick, incumbent=honest)
    if too_busy(verdict):
        pytest.skip("other programs keep this machine too busy")
    assert isinstance(verdict, Accepted), explain(verdict)
    assert verdict.comparison is not None
    assert verdict.comparison.interval.low < 1.5, explain(verdict)


HIDING = ("h5_constructor_reads", "h5_reads_proc", "t2_raw_clone", "c20_file_replay")
LOCKED = ("h5_filters_first", "h5_filters_by_prctl", "h5_raises_limit", "h5_keeps_folder", "h5_thread_opens")


@pytest.mark.parametrize(
    ("name", "level"),
    [
        *itertools.product(HIDING, ["namespaces", "landlock"]),
        *itertools.product(LOCKED, ["namespaces", "landlock", "rlimits"]),
    ],
)
def test_weaker_sandbox_still_holds(name: str, level: Level, judges: Judges, monkeypatch: pytest.MonkeyPatch) -> None:
    case = next(case for case in CHEATING if case.name == name)
    sandbox = attempt(level)
    if sandbox is None:
        pytest.skip(f"this machine has no {level}")
    monkeypatch.setattr(judges.of(case).device, "sandbox", sandbox)
    monkeypatch.setattr("tools.stages.screen", no_trip_wires)
    verdict = judges.evaluate(case)
    assert outcome(verdict) in case.expect - {"screen:forbidden_source"} or too_busy(verdict), explain(verdict)


@pytest.mark.parametrize(
    "settings",
    [
        {"flags": ("-lopenblas",)},
        {"flags": ("-include", "/etc/passwd")},
        {"flags": ("-I/etc",)},
        {"flags": ("@/etc/passwd",)},
        {"flags": ("-fplugin=evil.so",)},
        {"flags": ("-Wl,--wrap=clock_gettime",)},
        {"flags": ("-specs=evil",)},
        {"flags": ("-B.",)},
        {"flags": ("-o/tmp/elsewhere",)},
        {"defines": {"N": "1 -lopenblas"}},
        {"defines": {"solve(a,b)": "other"}},
        {"files": {"../outside.cpp": "int x;"}},
        {"files": {"/tmp/outside.cpp": "int x;"}},
    ],
    ids=str,
)
def test_settings_that_reach_outside_are_refused(settings: dict[str, object], judges: Judges) -> None:
    honest = next(case for case in BENIGN if case.name == "c10_in_place")
    fields = honest.kernel().model_dump() | settings
    if "files" in settings:
        fields["files"] = {**honest.kernel().files, **settings["files"]}  # type: ignore[dict-item]
    with pytest.raises(KernelError):
        judges.of(honest).evaluate(Kernel.model_validate(fields))


def test_kernel_that_brings_its_own_header_is_rejected(judges: Judges) -> None:
    honest = next(case for case in BENIGN if case.name == "c10_in_place")
    files = {**honest.kernel().files, "task.h": "#pragma once\n"}
    verdict = judges.of(honest).evaluate(Kernel(language="cpp", files=files))
    assert outcome(verdict) == "screen:forbidden_source", explain(verdict)


def test_check_command_rejects_a_cheat_and_says_why() -> None:
    program = [sys.executable, "-P", "-m", "app.cli", "check", "--json"]
    command = [*program, str(TASKS / "softmax"), str(KERNELS / "cheating" / "c11_half.cpp")]
    root = TASKS.parent.parent
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment, cwd=root)
    assert done.returncode == 1, done.stderr
    verdict = json.loads(done.stdout)
    assert "not_written" in json.dumps(verdict)
