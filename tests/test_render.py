from __future__ import annotations

from pathlib import Path

import pytest
from jinja2 import UndefinedError
from stub_executor import TASK, StubExecutor

from prompts.render import knowledge, render
from tools.facts import TaskFacts

ROLES = ("planner", "coder", "analyst")


async def facts() -> TaskFacts:
    return await StubExecutor(lambda _: 1.0).open(TASK)


@pytest.mark.parametrize("role", ROLES)
async def test_a_role_is_told_task_machine_contract_and_judging(role: str) -> None:
    text = render(f"{role}.md", task=TASK, facts=await facts(), hardware={"cpu": "stub"}, entry_file="kernel.cpp")
    for part in (
        f"You are the {role}",
        "# The task: stub",
        "x: float32[1024]",
        "baseline 1000 ms",
        "// task.h",
        "- cpu: stub",
    ):
        assert part in text
    assert "{{" not in text and "{%" not in text and "\n\n\n" not in text


async def test_the_fixed_prefix_is_the_same_byte_for_byte() -> None:
    first = render("coder.md", task=TASK, facts=await facts(), hardware={"cpu": "stub"}, entry_file="kernel.cpp")
    assert first == render(
        "coder.md", task=TASK, facts=await facts(), hardware={"cpu": "stub"}, entry_file="kernel.cpp"
    )


def test_an_undefined_name_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="hypothesis"):
        render("coder_ask.md")


def test_source_text_is_neither_escaped_nor_rendered() -> None:
    hypothesis = {
        "parent": "a1",
        "idea": "a<b && {{ c }}",
        "change": "{% x %}",
        "metric": "seconds",
        "expected": "-5 %",
    }
    text = render("coder_ask.md", hypothesis=hypothesis, sample=None, samples=1, forbidden=())
    assert "a<b && {{ c }}" in text and "{% x %}" in text


def test_every_template_is_used_by_the_agents() -> None:
    root = Path(__file__).parent.parent
    code = "".join(path.read_text() for path in (root / "agents").rglob("*.py"))
    templates = {path.name for path in (root / "prompts").glob("*.md")} - {f"{role}.md" for role in ROLES} - {"task.md"}
    assert templates and all(f'"{name}"' in code for name in templates)


def test_notes_are_cited_by_their_path() -> None:
    assert all(path.startswith("knowledge/") and text.strip() for path, text in knowledge().items())
