"""The index behind `search`, measured: building it, keeping it up to date, its size, and how long an answer takes.

    python -m bench.search_index [--passages 100000]

The texts are real ones of this machine: headers of the C++ compiler and of the CUDA toolkit, and the sources of the
installed Python packages. When they are used up they are taken again, each line of comment text numbered anew.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from memory.documents import MOST_BYTES, Folder
from memory.index import Index
from memory.passages import Document, passages_of
from memory.words import words_of
from tools.errors import InfrastructureError
from tools.headers import header_folders
from tools.search import search

QUERIES = 200
SMALL = 10_000
CHANGED = 100
"""Files that are changed, and half as many that are removed and added, before the index is brought up to date."""


@dataclass(frozen=True)
class Measured:
    """Seconds, unless a name says otherwise."""

    passages: int
    files: int
    text_megabytes: float
    disk_megabytes: float
    build: float
    build_processor: float
    """Processor time of it: what it would take alone on the machine."""
    unchanged: float
    """Looking at an unchanged folder."""
    update: float
    """After `CHANGED` changed files and half as many removed and added."""
    first_p95: float
    """Of queries asked for the first time, as the machine is."""
    median: float
    """Of the fastest of three askings each: what other programs take of the machine only adds."""
    p95: float
    p95_processor: float
    """The same in processor time."""
    slowest: float
    slowest_query: str
    tool_p95_processor: float
    """Of the whole tool `search`, with its second ranking."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the index behind `search`.")
    parser.add_argument("--passages", type=int, default=100_000)
    found = measure(parser.parse_args().passages)
    print(json.dumps(asdict(found), indent=1))
    return 0


def figures() -> list[tuple[str, float, float, str]]:
    """For `make bench`: name, value, budget and unit, of an index small enough to be built in seconds. In processor
    time, since whatever else the machine does is no figure of ours."""
    found = measure(SMALL)
    thousands = found.passages / 1000
    return [
        (f"search among {SMALL} passages, 95th percentile", found.p95_processor, 0.05, "s"),
        ("building an index, 1000 passages", found.build_processor / thousands, 0.5, "s"),
        ("index on disk, 1000 passages", found.disk_megabytes / thousands, 3.0, "MB"),
    ]


def measure(passages: int) -> Measured:
    """Build an index of about so many passages in a temporary folder, and ask it."""
    with tempfile.TemporaryDirectory(prefix="warpsmith-bench-") as name:
        root, path = Path(name, "texts"), Path(name, "index.sqlite")
        bytes_of_text = _write_texts(root, passages)
        with Index(path) as index:
            folder = Folder(root, index, "texts", path.with_suffix(".lock"))
            processor = time.process_time()
            build = _seconds(lambda: folder.refresh(3600))
            processor = time.process_time() - processor
            unchanged = _seconds(lambda: folder.refresh(3600))
            _change(root)
            update = _seconds(lambda: folder.refresh(3600))
            queries = _queries(root)
            first, times, processor_times = _asked(lambda query: folder.search(query, 12), queries)
            tool = _asked(lambda query: search([folder], query, 6), queries)[2]
            count = index.count()
        slowest = max(range(len(times)), key=times.__getitem__)
        return Measured(
            passages=count,
            files=sum(1 for each in root.rglob("*") if each.is_file()),
            text_megabytes=bytes_of_text / 1e6,
            disk_megabytes=path.stat().st_size / 1e6,
            build=build,
            build_processor=processor,
            unchanged=unchanged,
            update=update,
            first_p95=_p95(first),
            median=statistics.median(times),
            p95=_p95(times),
            p95_processor=_p95(processor_times),
            slowest=times[slowest],
            slowest_query=queries[slowest][:80],
            tool_p95_processor=_p95(tool),
        )


def _write_texts(root: Path, passages: int) -> int:
    """Real texts until they make about so many passages; returns their bytes."""
    written = total = number = 0
    while written < passages:
        for source in _sources():
            text = source.read_text(encoding="utf-8", errors="replace").replace("//", f"// {number // 1_000_000} ")
            total += len(text)
            path = root / f"{number // 1000:03}" / f"{number:06}-{source.name}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            number += 1
            written += _passages(text)
            if written >= passages:
                break
        number = (number // 1_000_000 + 1) * 1_000_000
    return total


def _passages(text: str) -> int:
    return sum(1 for _ in passages_of(Document("text", text)))


def _sources() -> Iterator[Path]:
    roots = [Path(sysconfig.get_path("purelib"))]
    for language in ("cuda", "cpp"):
        try:
            roots = [*header_folders(language), *roots]  # type: ignore[arg-type]
        except InfrastructureError:
            continue
    for root in roots:
        for path in sorted(root.rglob("*")):
            readable = path.is_file() and "__pycache__" not in path.parts and path.stat().st_size < MOST_BYTES
            if readable and (path.suffix == ".py" or root.name != "site-packages"):
                yield path


def _change(root: Path) -> None:
    draw = random.Random(1)
    files = _sample(root, CHANGED + CHANGED // 2, draw)
    for path in files[:CHANGED]:
        path.write_text(path.read_text(encoding="utf-8") + f"\n// changed {path.name}\n", encoding="utf-8")
    for path in files[CHANGED:]:
        shutil.move(path, path.with_name(f"moved-{path.name}"))


def _sample(root: Path, count: int, draw: random.Random) -> list[Path]:
    files = sorted(path for path in root.rglob("*") if path.is_file())
    return draw.sample(files, min(count, len(files)))


def _queries(root: Path) -> list[str]:
    """Words that occur nearly everywhere, seldom and never, alone and together, up to whole pasted lines."""
    draw = random.Random(2)
    files = _sample(root, 300, draw)
    texts = [path.read_text(encoding="utf-8") for path in files]
    counts = Counter(word for text in texts for word in set(words_of(text)))
    common = [word for word, _ in counts.most_common(200)]
    rare = [word for word, count in counts.items() if count == 1]
    lines = [line.strip() for text in texts for line in text.split("\n") if len(line.strip()) > 30]
    kinds: Sequence[Callable[[], str]] = (
        lambda: draw.choice(common[:20]),
        lambda: " ".join(draw.sample(common, 2)),
        lambda: " ".join(draw.sample(common, 40)),
        lambda: draw.choice(rare),
        lambda: f"{draw.choice(common)} {draw.choice(rare)}",
        lambda: draw.choice(lines),
        lambda: " ".join(draw.sample(lines, 5)),
        lambda: f"zyzzyva{draw.randrange(10**6)}",
    )
    return [kinds[number % len(kinds)]() for number in range(QUERIES)]


def _asked(ask: Callable[[str], object], queries: Sequence[str]) -> tuple[list[float], list[float], list[float]]:
    """Of every query the first time, the shortest of three, and the least processor time of three."""
    firsts, shortest, least = [], [], []
    for query in queries:
        walls, processors = [], []
        for _ in range(3):
            began, processor = time.perf_counter(), time.thread_time()
            ask(query)
            walls.append(time.perf_counter() - began)
            processors.append(time.thread_time() - processor)
        firsts.append(walls[0])
        shortest.append(min(walls))
        least.append(min(processors))
    return firsts, shortest, least


def _p95(times: Sequence[float]) -> float:
    return sorted(times)[int(0.95 * len(times))]


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
