"""What a terminal and a pipe show of a run: models' text as it comes, made harmless; retries, changes and money."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from agents.events import Event, EventKind
from app.bill import Bill, bill_of
from app.exits import say_error, sentence
from app.live import Lines, Panel
from app.plain import one_line, printable
from app.speech import Speech, tail_lines
from app.terminal import LastingConsole

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x1b[31m[bold red]x[/bold red]\x9b2J\u202eabc\r\x08\x00[/]"
OBEYED = re.compile("[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f\u202a-\u202e]")


def event(kind: EventKind, **fields: JsonValue) -> Event:
    return Event(event=kind, fields=fields)


def paid(kind: EventKind = "model_called", role: str = "coder", **fields: JsonValue) -> Event:
    cost: dict[str, JsonValue] = {"input_tokens": 1000, "output_tokens": 200, "cached_tokens": 0, "dollars": 0.25}
    return event(kind, **({"role": role, "model": "openai:gpt-x"} | cost | fields))


def screen(panel: Panel, width: int = 80) -> str:
    """One frame of the panel as text without styles."""
    console = Console(width=width, height=40, file=io.StringIO(), color_system=None)
    with console.capture() as captured:
        console.print(panel._draw())
    return captured.get()


def panel(width: int = 80) -> Panel:
    return Panel(LastingConsole(width=width, height=40, file=io.StringIO(), force_terminal=True), None)


def lines(*events: Event) -> str:
    out = io.StringIO()
    shown = Lines(LastingConsole(file=out, width=160))
    for each in events:
        shown.say("coder", "text that a pipe does not show")
        shown.show(each)
    return out.getvalue()


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=60))
def test_no_console_of_ours_lets_a_control_character_of_others_through(text: str) -> None:
    out = io.StringIO()
    console = LastingConsole(file=out, width=200, color_system=None)
    console.print(Text(text + HOSTILE))
    console.print(text + HOSTILE, markup=False)
    assert not OBEYED.search(out.getvalue().replace("\n", "")) and "\x1b" not in out.getvalue()
    assert "[bold red]x" in out.getvalue()


def test_a_name_or_a_text_with_colons_stays_what_it_is() -> None:
    out = io.StringIO()
    console = LastingConsole(file=out, width=200)
    console.print("anthropic:m: it is full :smile:", markup=False)
    console.print("[bold]openai:m:[/bold]")
    console.print(Text("local:q: :bug:"))
    assert out.getvalue().split("\n") == ["anthropic:m: it is full :smile:", "openai:m:", "local:q: :bug:", ""]


def test_our_own_colours_still_work() -> None:
    out = io.StringIO()
    LastingConsole(file=out, force_terminal=True, color_system="standard").print("[red]x[/red]")
    assert "\x1b[31mx" in out.getvalue()


def test_an_error_from_outside_is_harmless_and_ends_with_one_mark(capsys: pytest.CaptureFixture[str]) -> None:
    say_error(f"the server said {HOSTILE}", HOSTILE)
    text = capsys.readouterr().err
    assert not OBEYED.search(text.replace("\n", "")) and "\x1b" not in text
    assert [sentence(s) for s in ("a", "a.", "builtin:…", "what?")] == ["a.", "a.", "builtin:…", "what?"]
    assert one_line(" a\n\tb\x1b ") == "a b" and printable("a\tb\n") == "a\tb\n"


def test_the_tail_of_what_a_model_says_is_shown_as_it_comes() -> None:
    shown = panel(40)
    assert "planner" not in screen(shown, 40)
    for piece in ("First I look at\n", "\n", "the profile", ": it is [bold]memory[/bold] ", HOSTILE):
        shown.say("planner", piece)
    frame = screen(shown, 40)
    assert "planner" in frame and "First I look at" in frame and "[bold]memory[/bold]" in frame
    assert not OBEYED.search(frame.replace("\n", "")) and "\x1b" not in frame
    shown.say("planner", "\n".join(f"line {n}" for n in range(50)))
    frame = screen(shown, 40)
    assert "line 49" in frame and "First I look" not in frame


def test_a_reply_that_broke_off_makes_room_for_the_next() -> None:
    shown = panel()
    shown.say("coder", "the first try broke")
    shown.show(paid("model_retried", fault="transient", wait=3.0, message="overloaded"))
    assert "the first try broke" in screen(shown) and "again in 3 s" in screen(shown)
    shown.say("coder", "the second")
    assert "the second" in screen(shown) and "broke" not in screen(shown)


def test_the_panel_keeps_its_height_while_somebody_speaks() -> None:
    shown = panel()
    shown.say("coder", "\n".join("abcdefgh"))
    before = screen(shown).count("\n")
    shown.show(paid())
    money = screen(shown).count("\n") - before
    shown.say("coder", "short")
    assert screen(shown).count("\n") == before + money


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=300), st.integers(10, 40), st.integers(1, 6))
def test_a_tail_fits_its_box(text: str, width: int, most: int) -> None:
    found = tail_lines(text, width, most)
    assert len(found) <= most and all(0 <= cell_len(line) <= width and line.strip() for line in found)
    speech = Speech(most)
    speech.add("coder", text)
    assert bool(speech) == bool(text.strip())


def test_money_is_shown_with_its_limit_and_what_has_no_price() -> None:
    shown = panel()
    shown.show(event("run_started", run="r", budgets={"dollars": 5.0, "tokens": 2_000_000}))
    assert "models" not in screen(shown)
    shown.show(paid(cached_tokens=250))
    assert "$0.25 of $5.00, 1.20k of 2.00M tokens (25 % of the prompts cached)" in screen(shown)
    shown.show(paid("model_failed", dollars=None, fault="refusal", message=""))
    assert "$0.25 of $5.00 and 1.20k tokens at an unknown price" in screen(shown)
    only_unknown = Bill()
    only_unknown.add(paid(dollars=None).fields)
    assert str(only_unknown) == "price unknown, 1.20k tokens" and str(Bill()) == ""


def test_a_pipe_gets_a_line_for_each_retry_and_change_and_the_money_of_each_turn() -> None:
    text = lines(
        paid(),
        paid(
            "model_retried",
            fault="transient",
            wait=12.0,
            message="529\nOverloaded",
            dollars=None,
            input_tokens=0,
            output_tokens=0,
        ),
        event(
            "model_changed",
            role="coder",
            iteration=3,
            before="openai:gpt-x",
            after="local:q",
            why="refusal",
            message="I can't help with CUDA [/]\x1b[2J",
        ),
        event("iteration_ended", iteration=1, iterations=9, best="a1", seconds=None, time_left=None),
        event("stopping", reason="models_unavailable", message="local:q: connection refused"),
    )
    assert "\x1b" not in text and "text that a pipe" not in text
    assert text.splitlines() == [
        "coder: openai:gpt-x is out of reach or overloaded; again in 12 s (529 Overloaded)",
        "coder: now local:q, since openai:gpt-x declined to answer (I can't help with CUDA [/][2J)",
        "iteration 1 of 9: best a1, $0.25, 1.20k tokens",
        "stopping: no model could be reached (local:q: connection refused)",
    ]


def test_what_ends_a_run_is_left_to_the_command_s_error() -> None:
    told = event("run_failed", error="InfrastructureError", message="no CUDA device", advice="")
    assert lines(told) == "" and "no CUDA device" not in screen(panel())
    shown = panel()
    shown.show(told)
    assert "no CUDA device" not in screen(shown) + shown._console.file.getvalue()  # type: ignore[attr-defined]


def test_a_run_that_goes_on_shows_what_was_paid_before_too() -> None:
    past = [{"event": told.event, **told.fields} for told in (paid(), paid("model_retried"), event("iteration_ended"))]
    written = io.StringIO()
    lines = Lines(Console(file=written, width=200), bill_of(past))
    lines.show(paid())
    lines.show(event("iteration_ended", iteration=3, iterations=4))
    assert "$0.75" in written.getvalue() and "3.60k tokens" in written.getvalue()
