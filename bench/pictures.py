"""The pictures of docs/images, taken anew of a run that is judged for real.

    python -m bench.pictures [--out docs/images] [--runs DIR]

Nobody thinks in it: the roles play a script of four plans on examples/softmax, so that there are ideas, predictions and
words to see without a provider. Kernels are built, judged and timed here as in any run. A second run, of the built-in
tuner, stands beside it in the comparison. About three minutes; wants Chromium.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import JsonValue
from textual.widgets import Input

from agents.models import registry
from agents.settings import ROLES, Budgets, Models, RunSettings
from app.compare import compare
from app.compare_report import parts_of
from app.configuration import Asked, configure
from app.optimize import Prepared
from app.pages import rendered
from app.report import writable, write_report
from app.session.app import SessionApp
from app.session.driver import Driver
from bench.scripted import PLANS, Script
from memory.runs import RunFolder
from tests.browser import PHONE, Window, window
from tests.dashboard import dashboard
from tools.executor import LocalExecutor
from tools.task import read_task

ROOT = Path(__file__).resolve().parent.parent
TASK = "examples/softmax"
PATIENCE = 400.0
"""Seconds until what is waited for counts as not coming."""
TERMINAL, NARROW = (160, 48), (80, 24)
PAGE = {"width": 1000, "height": 1000}


def prepared(root: Path, models: Models, parallel: int, iterations: int, approve: bool) -> tuple[Prepared, RunFolder]:
    task = read_task(ROOT / TASK)
    settings = RunSettings(
        budgets=Budgets(iterations=iterations, near_limit=None), models=models, parallel=parallel, approve=approve
    )
    config: dict[str, JsonValue] = {
        "task_path": TASK,
        "task": task.model_dump(mode="json"),
        "settings": settings.model_dump(mode="json"),
        "executor": "local",
        "command": ["warpsmith", "session", TASK, "--parallel", str(parallel), *(["--approve"] if approve else [])],
    }
    run = RunFolder.create(root, task.name, config)
    return Prepared(task, settings, LocalExecutor(), configure(Asked(), os.environ, root), config), run


class Beside:
    """A person beside a run, who presses keys and takes pictures (SVG, by name)."""

    def __init__(self, pilot: Any, app: SessionApp, driver: Driver, keep: Callable[[str, str], None]) -> None:
        self._pilot, self._app, self._driver, self._keep = pilot, app, driver, keep

    async def until(self, holds: Callable[[], object]) -> None:
        end = asyncio.get_running_loop().time() + PATIENCE
        while not holds():
            if asyncio.get_running_loop().time() > end or self._driver.error is not None:
                raise SystemExit(f"the run came to nothing: {self._driver.error!r}")
            await self._pilot.pause(0.05)

    async def press(self, *keys: str) -> None:
        for key in keys:
            await self._pilot.press(key)
            await self._pilot.pause(0.2)

    async def write(self, text: str) -> None:
        line = self._app.screen.query_one("#line", Input)
        line.value, line.cursor_position = text, len(text)
        await self._pilot.pause(0.3)

    def keep(self, name: str) -> None:
        self._keep(name, self._app.export_screenshot())


async def session(root: Path, keep: Callable[[str, str], None]) -> RunFolder:
    """The scripted run beside its session, from the first plan to an export."""
    models = Models(**dict.fromkeys(ROLES, "scripted:engineer"))
    asked, run = prepared(root, models, 2, len(PLANS), approve=True)
    registry.LOCAL["scripted"] = lambda spec, _: Script(f"scripted:{spec.model}", run)
    driver = Driver(asked, run)
    driver.start()
    app = SessionApp(run, driver)
    async with app.run_test(size=TERMINAL) as pilot:
        person = Beside(pilot, app, driver, keep)
        await steered(person, app)
        await looked_at(person, app)
        await pilot.resize_terminal(*NARROW)
        await person.press("3")
        person.keep("session-narrow")
    driver.join(PATIENCE)
    return RunFolder(run.path)


async def steered(person: Beside, app: SessionApp) -> None:
    """Each plan is approved; beside the second one a hint is given."""
    story = app.session.story
    await person.until(lambda: story.waiting)
    await person.press("1")
    person.keep("session-plan")
    await person.press("a")
    await person.until(lambda: story.waiting and story.iteration == 2)
    app.clear_notifications()
    await person.press("h")
    await person.write("hint a row fits into L1: read it once")
    person.keep("session-hint")
    await person.press("enter", "a")
    for plan in range(3, len(PLANS) + 1):
        await person.until(lambda plan=plan: story.waiting and story.iteration == plan)  # type: ignore[misc]
        await person.press("a")
    await person.until(lambda: story.ended is not None)


async def looked_at(person: Beside, app: SessionApp) -> None:
    """The best is exported, and what is seen then; then the help."""
    await person.press("b", "X", "1", "enter")
    await person.until(lambda: app.session.story.exports and app.session.story.exports[-1].doing is None)
    app.clear_notifications()
    await person.press("1", "b", "n")
    person.keep("session-wide")
    await person.press("question_mark")
    person.keep("session-help")
    await person.press("escape")


def tuned(root: Path, iterations: int) -> RunFolder:
    """A run of the built-in tuner on the same task."""
    asked, run = prepared(root, Models(), 1, iterations, approve=False)
    driver = Driver(asked, run)
    driver.start()
    driver.join()
    if driver.error is not None:
        raise driver.error
    return RunFolder(run.path)


def pages(root: Path, runs: tuple[RunFolder, RunFolder], browser: Window, out: Path) -> None:
    """Pictures of the report, of a comparison and of the dashboard."""
    seen, other = runs
    compared = root / "compare.html"
    compared.write_text(writable(rendered("compare.html.j2", {"compared": parts_of(compare([seen, other]))})))
    report = write_report(seen).as_uri()
    for name, url, part, dark in (
        ("report", report, "body", False),
        ("report-steps", report, "#way", False),
        ("report-tree", report, "#tree", True),
        ("compare", compared.as_uri(), "body", False),
    ):
        with browser.visit(size=PAGE, dark=dark) as visit:
            visit.go(url)
            box = visit.page.evaluate("part => document.querySelector(part).getBoundingClientRect().toJSON()", part)
            clip = {"x": 0, "y": box["y"], "width": PAGE["width"], "height": min(PAGE["height"], box["height"] + 12)}
            visit.page.screenshot(path=out / f"{name}.png", full_page=True, clip=clip)
    with dashboard(root) as site:
        for name, path, size, dark in (
            ("dashboard", "/", {"width": 1100, "height": 560}, False),
            ("dashboard-run", f"/run/{seen.id}", {"width": 1000, "height": 1000}, True),
            ("dashboard-phone", f"/run/{seen.id}", PHONE, False),
        ):
            with browser.visit(size=size, dark=dark) as visit:
                visit.go(site.entrance)
                visit.go(site.origin + path)
                visit.page.screenshot(path=out / f"{name}.png")


def drawn(name: str, svg: str, browser: Window, out: Path) -> None:
    """A terminal's picture as PNG, as wide as 1222 pixels, in 12 shades a channel: that halves the file."""
    wide, tall = (float(part) for part in re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)[0])
    width = min(1222, round(wide))
    shades = " ".join(f"{step / 11:.4f}" for step in range(12))
    channels = "".join(f'<feFunc{channel} type="discrete" tableValues="{shades}"/>' for channel in "RGB")
    transfer = f"<feComponentTransfer>{channels}</feComponentTransfer>"
    few = f'<svg width="0" height="0"><filter id="few" color-interpolation-filters="sRGB">{transfer}</filter></svg>'
    style = "body { margin: 0 } body > svg { position: absolute } main { filter: url(#few) } "
    style += f"main svg {{ display: block; width: {width}px }}"
    with browser.visit(size={"width": width, "height": round(width * tall / wide)}) as visit:
        visit.page.set_content(f"<style>{style}</style>{few}<main>{svg}</main>")
        visit.page.screenshot(path=out / f"{name}.png")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images")
    parser.add_argument("--runs", type=Path, help="Where the runs are kept; thrown away when left out.")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        root = (asked.runs or Path(scratch) / "runs").absolute()
        out = asked.out.absolute()
        os.chdir(scratch)  # where the export is written
        terminals: dict[str, str] = {}
        seen = asyncio.run(session(root, terminals.__setitem__))
        other = tuned(root, 7)
        with window() as browser:
            for name, svg in terminals.items():
                drawn(name, svg, browser, out)
            pages(root, (seen, other), browser, out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
