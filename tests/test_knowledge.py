"""The optimisation notes: their form, the names of what they quote, that their code compiles, and that they are found.

Code fences with the word `complete` compile on their own beside `task.h`; they are compiled here, not run. The task
they are written for has the inputs `x` and `y` and the output `out`, matrices of float32 whose sizes vary.
"""

from __future__ import annotations

import gzip
import platform
import re
import subprocess
from pathlib import Path
from typing import Final, get_args

import pytest

from memory.index import Document, Index
from prompts.render import knowledge
from tools.contract import Signature, Tensor, task_header
from tools.counters import Cause
from tools.device_code import DeviceFunction
from tools.errors import InfrastructureError
from tools.profilers import perf
from tools.profilers.ncu_metrics import FIGURES, INTERMEDIATE, QUOTIENTS, STALLS, named, parse_query
from tools.profilers.valgrind import metrics
from tools.targets.cuda_toolkit import find_toolkit
from tools.toolchain import find_compiler

NOTES: Final = {path.removeprefix("knowledge/"): text for path, text in knowledge().items()}
QUERIED: Final = Path(__file__).parent / "golden/h200/zoo/query_metrics_gh100.txt.gz"
LINES: Final = 60
FLAGS: Final = ("-fopenmp", "-mavx512f", "-Wall", "-Wextra", "-Werror", "-fsyntax-only")
HEADINGS: Final = ["## Symptom", "## Change", "## When not"]
NCU_FAMILIES: Final = ("sm", "smsp", "l1tex", "lts", "dram", "gpu", "launch", "derived", "sass", "memory")

SHOWN_BY_NCU: Final = ({figure.name for figure in FIGURES} | {quotient.name for quotient in QUOTIENTS}) - INTERMEDIATE
COUNTED_BY_CPU: Final = {name for name, _, _ in perf.METRICS} | {
    metric.name for metric in metrics(dict.fromkeys(("Ir", "Dr", "Dw", "Bc", "DLmr", "D1mr", "Bcm"), 1), True)[0]
}
TOLD_BY_CLOCK: Final = {"seconds", "busy_cores", "share_of_limit", "parallel_regions", "openmp_wait"}
KNOWN: Final = (
    SHOWN_BY_NCU
    | {stall.name for stall in STALLS}
    | set(get_args(Cause))
    | COUNTED_BY_CPU
    | TOLD_BY_CLOCK
    | set(DeviceFunction.model_fields)
)
"""Every name under which a profile or a build report shows something."""

_BLOCK = re.compile(r"^```(?P<info>[^\n]*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
_QUOTED = re.compile(r"`([^`\n]+)`")
_METRIC = re.compile(r"[a-z0-9]+(?:_[a-z0-9]+)+")
_LINK = re.compile(r"\[[^\]\n]+\]\(([^)\s]+\.md)\)")


def prose(note: str) -> str:
    return _BLOCK.sub("", NOTES[note])


def section(note: str, heading: str) -> str:
    return prose(note).split(f"{heading}\n", 1)[1].split("\n## ", 1)[0]


def complete(note: str, language: str) -> list[str]:
    return [block["code"] for block in _BLOCK.finditer(NOTES[note]) if block["info"] == f"{language} complete"]


def header() -> str:
    def signature(rows: int, columns: int) -> Signature:
        x, y, out = (Tensor(name=name, dtype="float32", shape=(rows, columns)) for name in ("x", "y", "out"))
        return Signature(inputs=(x, y), outputs=(out,))

    return task_header("the notes", [signature(64, 128), signature(3, 5)])


def test_there_are_enough_notes_for_either_target() -> None:
    assert sum(note.startswith("cuda-") for note in NOTES) >= 28
    assert sum(note.startswith("cpu-") for note in NOTES) >= 26


def test_titles_differ() -> None:
    titles = [text.splitlines()[0] for text in NOTES.values()]
    assert len({title.lower() for title in titles}) == len(titles)


@pytest.mark.parametrize("note", NOTES)
def test_a_note_has_the_form_that_a_reader_expects(note: str) -> None:
    lines = NOTES[note].splitlines()
    assert len(lines) <= LINES
    assert max(map(len, lines)) <= 120
    assert lines[0].startswith("# ") and lines[1] == ""
    assert [line for line in prose(note).splitlines() if line.startswith("#")] == [lines[0], *HEADINGS]
    assert all(section(note, heading).strip() for heading in HEADINGS)
    end = NOTES[note].split("\nRelated: ", 1)[1]
    assert "\nSource: " in end and end.endswith("\n") and "\n\n" not in end.rstrip("\n")
    assert all(block["info"] in ("cuda complete", "cpp complete") for block in _BLOCK.finditer(NOTES[note]))


@pytest.mark.parametrize("note", NOTES)
def test_links_lead_to_other_notes(note: str) -> None:
    targets = _LINK.findall(NOTES[note])
    assert targets and note not in targets
    assert set(targets) <= set(NOTES)


@pytest.mark.parametrize("note", NOTES)
def test_a_symptom_is_in_the_words_of_the_profile(note: str) -> None:
    quoted = _QUOTED.findall(section(note, "## Symptom"))
    metrics = {word for word in quoted if _METRIC.fullmatch(word) and "__" not in word}
    assert metrics - KNOWN == set()
    assert set(quoted) & KNOWN or re.search(r"\b([Cc]lass|report)\b", section(note, "## Symptom"))
    if note.startswith("cuda-"):
        assert set(quoted) & (KNOWN - COUNTED_BY_CPU)


def test_counters_have_the_names_that_the_profiler_knows() -> None:
    with gzip.open(QUERIED, "rt") as file:
        queried = parse_query(file.read())
    mentioned = {
        word for note in NOTES for word in _QUOTED.findall(prose(note)) if word.partition("__")[0] in NCU_FAMILIES
    }
    mentioned = {word for word in mentioned if "__" in word}
    assert mentioned
    assert {word for word in mentioned if word not in named() and word.partition(".")[0] not in queried} == set()


def test_complete_cuda_code_compiles(tmp_path: Path) -> None:
    try:
        toolkit = find_toolkit()
    except InfrastructureError:
        pytest.skip("there is no nvcc")
    if toolkit.release < (12, 4):
        pytest.skip("this nvcc is older than what the notes use")
    codes = [(note, code) for note in NOTES for code in complete(note, "cuda")]
    parts, includes = [], ['#include "task.h"', "#include <cmath>"]
    for number, (note, code) in enumerate(codes):
        body = re.sub(r"\bsolve\b", f"solve_{number}", code)
        includes += re.findall(r"^#include .*$", body, re.MULTILINE)
        body = re.sub(r"^#include .*$", "", body, flags=re.MULTILINE)
        parts.append(f'namespace note_{number} {{\n#line 1 "{note}"\n{body}}}\n')
    assert len(parts) >= 30
    (tmp_path / "task.h").write_text(header())
    (tmp_path / "notes.cu").write_text("\n".join([*dict.fromkeys(includes), *parts]))
    command = [str(toolkit.nvcc), "-ccbin", str(find_compiler().path), "-std=c++20", "-rdc=true", "-cubin"]
    command += ["-gencode", "arch=compute_90a,code=sm_90a", "notes.cu"]  # -rdc keeps functions that no kernel calls
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr, done.stderr


@pytest.mark.skipif(platform.machine() != "x86_64", reason="some notes are on x86 alone")
def test_complete_cpp_code_compiles(tmp_path: Path) -> None:
    compiler = find_compiler()
    (tmp_path / "task.h").write_text(header())
    codes = [(note, code) for note in NOTES for code in complete(note, "cpp")]
    assert codes
    for number, (note, code) in enumerate(codes):
        source = tmp_path / f"note{number}.cpp"
        source.write_text(f'#line 1 "{note}"\n{code}')
        command = [str(compiler.path), "-std=c++20", *FLAGS, source.name]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def index() -> Index:
    built = Index()
    built.add(Document(path, text) for path, text in knowledge().items())
    return built


@pytest.mark.parametrize(
    ("query", "note"),
    [
        ("bank conflicts shared memory", "cuda-bank-conflicts"),
        ("swizzle padding shared tile", "cuda-bank-conflicts"),
        ("register spilling", "cuda-register-spills"),
        ("uncoalesced sectors_per_load strided global access", "cuda-coalescing"),
        ("derived__memory_l2_theoretical_sectors_global_excessive", "cuda-coalescing"),
        ("float4 vectorized loads", "cuda-vector-loads"),
        ("low occupancy ILP", "cuda-occupancy-ilp"),
        ("__launch_bounds__ maxrregcount", "cuda-launch-bounds"),
        ("grid stride loop tail wave quantization", "cuda-tail-effect"),
        ("memory latency bytes in flight Little's law", "cuda-bytes-in-flight"),
        ("cp.async pipeline stages", "cuda-cp-async"),
        ("TMA bulk copy mbarrier", "cuda-tma"),
        ("wgmma sm_90a", "cuda-wgmma"),
        ("setmaxnreg producer consumer warp specialization", "cuda-warp-specialisation"),
        ("tensor cores mma.sync wmma", "cuda-mma-sync"),
        ("tf32 bf16 tolerance policy", "cuda-numerics-policy"),
        ("warp shuffle reduction", "cuda-warp-reductions"),
        ("block reduction last block", "cuda-block-reductions"),
        ("online softmax running maximum", "cuda-softmax"),
        ("fuse layernorm rmsnorm residual", "cuda-norm-fusion"),
        ("atomicAdd histogram contention shared atomics", "cuda-histograms"),
        ("prefix sum decoupled look-back", "cuda-scan"),
        ("stencil halo shared memory", "cuda-stencil"),
        ("implicit GEMM convolution im2col", "cuda-convolution"),
        ("split-K stream-K", "cuda-split-k"),
        ("warp divergence active_lanes", "cuda-divergence"),
        ("launch overhead CUDA graph programmatic dependent launch", "cuda-launch-overhead"),
        ("persistent kernel tile scheduler counter", "cuda-persistent"),
        ("distributed shared memory cluster", "cuda-clusters"),
        ("evict_first no_allocate cache hint", "cuda-cache-hints"),
        ("L2 residency persisting access policy", "cuda-l2-residency"),
        ("fast math __expf precision", "cuda-fast-math"),
        ("integer division index arithmetic", "cuda-index-arithmetic"),
        ("double precision fp64_pipe", "cuda-double-precision"),
        ("constant memory texture", "cuda-constant-texture"),
        ("cooperative groups grid sync", "cuda-cooperative-groups"),
        ("what does stall long_scoreboard mean", "cuda-stall-reasons"),
        ("roofline memory bound limit", "cuda-roofline"),
        ("noise clock why measurements differ", "cuda-measuring"),
        ("small grid few blocks latency", "cuda-small-problems"),
        ("async proxy fence race", "cuda-barrier-pitfalls"),
        ("matmul register tile shared memory l1_bandwidth", "cuda-matmul-tiling"),
        ("software prefetch indirect index", "cpu-prefetching"),
        ("huge pages TLB dtlb_miss_rate", "cpu-huge-pages"),
        ("NUMA first touch", "cpu-numa-first-touch"),
        ("denormals flush to zero", "cpu-denormals"),
        ("gather permute table lookup", "cpu-gather-permute"),
        ("int8 dot product VNNI AMX", "cpu-int-dot-products"),
        ("ffp-contract FMA reassociation", "cpu-fma-reassociation"),
        ("unaligned rows assume_aligned", "cpu-alignment"),
        ("false sharing", "cpu-false-sharing"),
        ("strided access loop order", "cpu-loop-order"),
    ],
)
def test_a_natural_question_finds_its_note_first(index: Index, query: str, note: str) -> None:
    assert index.search(query, 3)[0].path == f"knowledge/{note}.md"
