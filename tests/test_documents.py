"""A folder of documents kept in an index: what is read, what is left out and why, and what a change costs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from memory import documents
from memory.documents import MOST_BYTES, Folder, pdf_pages
from memory.index import Index

ROOT = Path(__file__).parent.parent
LONG_AGO = time.time() - 3600


def pdf_bytes(*pages: str) -> bytes:
    """A PDF with one line of text a page, written by hand."""
    count = len(pages)
    kids = " ".join(f"{3 + 2 * n} 0 R" for n in range(count))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {count} /MediaBox [0 0 300 300]"
        " /Resources << /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >> >>",
    ]
    for n, text in enumerate(pages):
        stream = f"BT /F1 12 Tf 20 200 Td ({text}) Tj ET"
        objects.append(f"<< /Type /Page /Parent 2 0 R /Contents {4 + 2 * n} 0 R >>")
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    body, offsets = "%PDF-1.4\n", []
    for number, text in enumerate(objects, 1):
        offsets.append(len(body))
        body += f"{number} 0 obj\n{text}\nendobj\n"
    rows = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    table = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{rows}"
    end = f"trailer << /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(body)}\n%%EOF\n"
    return (body + table + end).encode()


def write(path: Path, content: str | bytes, changed: float = LONG_AGO) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    os.utime(path, (changed, changed))


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    root = tmp_path / "docs"
    write(root / "guide.md", "# Guide\n\nAlign every row to 128 bytes.\n")
    write(root / "src/kernel.cu", "__global__ void rowSoftmax() {}\n")
    write(root / "manual.pdf", pdf_bytes("Introduction", "Swizzled tiles avoid bank conflicts"))
    return root


def found(folder: Folder, query: str) -> list[str]:
    return [hit.path for hit in folder.search(query, 10)]


def test_markdown_source_and_pdf_are_found_and_cited(docs: Path) -> None:
    folder = Folder(docs, Index(), "docs")
    assert folder.refresh(60).pending == 0
    assert found(folder, "softmax") == ["docs/src/kernel.cu"]
    (hit,) = folder.search("align bytes", 3)
    assert (hit.path, hit.first_line, hit.last_line, hit.title) == ("docs/guide.md", 1, 3, "Guide")
    (hit,) = folder.search("swizzled", 3)
    assert (hit.path, hit.first_line) == ("docs/manual.pdf#page=2", None)
    assert "bank conflicts" in hit.text
    assert folder.skipped() == ""


def test_one_file_is_a_folder_of_its_own(docs: Path) -> None:
    folder = Folder(docs / "manual.pdf", Index(), "docs/manual.pdf")
    folder.refresh(60)
    assert found(folder, "introduction") == ["docs/manual.pdf#page=1"]
    note = Folder(docs / "guide.md", Index(), "guide.md")
    note.refresh(60)
    assert found(note, "align") == ["guide.md"]


def test_only_what_changed_is_read_again_and_what_has_gone_vanishes(
    docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder(docs, Index(), "docs")
    folder.refresh(60)
    read: list[str] = []
    whole = Path.read_bytes

    def watched(path: Path) -> bytes:
        read.append(path.name)
        return whole(path)

    monkeypatch.setattr(Path, "read_bytes", watched)
    folder.refresh(60)
    assert read == []
    os.utime(docs / "guide.md", (LONG_AGO + 5, LONG_AGO + 5))
    write(docs / "src/kernel.cu", "__global__ void rowSoftmin() {}\n", LONG_AGO + 5)
    (docs / "manual.pdf").unlink()
    folder.refresh(60)
    assert sorted(read) == ["guide.md", "kernel.cu"]
    assert (found(folder, "align"), found(folder, "softmax"), found(folder, "swizzled")) == (["docs/guide.md"], [], [])
    assert found(folder, "softmin") == ["docs/src/kernel.cu"]
    folder.refresh(60)
    assert len(read) == 2


def test_a_change_within_the_clock_s_step_is_not_missed(docs: Path) -> None:
    folder = Folder(docs, Index(), "docs")
    soon = time.time() + 3600
    write(docs / "fresh.md", "alpha", soon)
    folder.refresh(60)
    write(docs / "fresh.md", "gamma", soon)
    folder.refresh(60)
    assert (found(folder, "alpha"), found(folder, "gamma")) == ([], ["docs/fresh.md"])


def test_what_can_t_be_searched_is_left_out_with_a_reason(docs: Path) -> None:
    import pypdf

    locked = pypdf.PdfWriter(clone_from=docs / "manual.pdf")
    locked.encrypt("secret", algorithm="RC4-128")
    locked.write(docs / "locked.pdf")
    write(docs / "broken.pdf", b"%PDF-1.4\nnothing of the kind")
    write(docs / "scan.pdf", pdf_bytes(""))
    write(docs / "binary.dat", b"\x7fELF\0\0words")
    write(docs / "noise.txt", bytes(range(128, 256)) * 20)
    write(docs / "huge.log", b"needle " + b"x" * MOST_BYTES)
    write(docs / ".hidden/secret.md", "needle")
    write(docs / ".env", "needle=1")
    folder = Folder(docs, Index(), "docs")
    folder.refresh(60)
    told = folder.skipped()
    for words in (
        "locked.pdf (needs a password)",
        "broken.pdf (no readable PDF",
        "scan.pdf (no text in it)",
        "binary.dat, noise.txt (binary)",
        "huge.log (larger than 8 MiB)",
    ):
        assert words in told
    assert found(folder, "needle") == []
    assert found(folder, "swizzled") == ["docs/manual.pdf#page=2"]


def test_a_folder_that_can_t_be_read_and_files_beyond_the_most_are_named(
    docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = "deep" * 50
    place = os.open(docs, os.O_RDONLY)
    for _ in range(24):  # longer than a path may be, which stops even root
        os.mkdir(step, dir_fd=place)
        place, outer = os.open(step, os.O_RDONLY, dir_fd=place), place
        os.close(outer)
    os.close(place)
    folder = Folder(docs, Index(), "docs")
    folder.refresh(60)
    assert "File name too long" in folder.skipped()
    assert found(folder, "swizzled") == ["docs/manual.pdf#page=2"]
    monkeypatch.setattr(documents, "MOST_FILES", 1)
    folder.refresh(60)
    assert "this and all behind it: more than 1 files" in folder.skipped()


def test_links_in_circles_and_strange_files_do_no_harm(docs: Path) -> None:
    (docs / "src/loop").symlink_to(docs)
    (docs / "dangling").symlink_to(docs / "nowhere")
    os.mkfifo(docs / "pipe")
    (docs / "other").mkdir()
    (docs / "outside").symlink_to(docs.parent / "elsewhere")
    write(docs.parent / "elsewhere/linked.md", "reached by a link")
    write(docs / os.fsdecode(b"na\xffme.txt"), "a name that is no text")
    folder = Folder(docs, Index(), "docs")
    assert folder.refresh(60).files == 4
    assert found(folder, "softmax") == ["docs/src/kernel.cu"]
    assert found(folder, "reached") == ["docs/outside/linked.md"]


def test_texts_of_other_encodings_are_read(docs: Path) -> None:
    write(docs / "wide.txt", "größer".encode("utf-16"))
    write(docs / "marked.txt", b"\xef\xbb\xbfmarked")
    write(docs / "latin.txt", ("plain text and more of it, " * 4 + "größer").encode("latin-1"))
    folder = Folder(docs, Index(), "docs")
    folder.refresh(60)
    assert found(folder, "größer") == ["docs/wide.txt"]
    assert found(folder, "marked") == ["docs/marked.txt"]
    assert found(folder, "plain") == ["docs/latin.txt"]


def test_reading_goes_on_where_it_ran_out_of_time(tmp_path: Path) -> None:
    for n in range(20):
        write(tmp_path / f"note{n:02}.md", f"word{n} shared")
    folder = Folder(tmp_path, Index(), "docs")
    pending = [folder.refresh(0).pending for _ in range(20)]
    assert pending == list(range(19, -1, -1))
    assert len(folder.search("shared", 50)) == 20


def test_a_folder_that_has_gone_keeps_what_was_read(docs: Path) -> None:
    folder = Folder(docs, Index(), "docs")
    folder.refresh(60)
    docs.rename(docs.with_name("moved"))
    folder.refresh(60)
    assert found(folder, "softmax") == ["docs/src/kernel.cu"]


def test_one_process_reads_while_another_searches_what_is_there(docs: Path, tmp_path: Path) -> None:
    lock, path = tmp_path / "docs.lock", tmp_path / "docs.sqlite"
    hold = "import fcntl, sys; f = open(sys.argv[1], 'a'); fcntl.flock(f, 2); print('held', flush=True); input()"
    argv = [sys.executable, "-c", hold, str(lock)]
    with (
        Index(path) as index,
        subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other,
    ):
        assert other.stdout is not None and other.stdout.readline() == "held\n"
        folder = Folder(docs, index, "docs", lock)
        assert folder.refresh(60).pending is None
        other.communicate("\n")
        assert folder.refresh(60).pending == 0
        assert found(folder, "softmax") == ["docs/src/kernel.cu"]


def test_pages_read_before_the_time_ran_out_are_kept(docs: Path) -> None:
    assert pdf_pages(docs / "manual.pdf", 60) == ({1: "Introduction", 2: "Swizzled tiles avoid bank conflicts"}, "")
    assert pdf_pages(docs / "manual.pdf", 0.001) == ({}, "reading it took more than 0.001 s")
