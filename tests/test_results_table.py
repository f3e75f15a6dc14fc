"""The README's table: what is measured here replaces its own rows alone, and the H200's columns come from a record."""

from __future__ import annotations

from pathlib import Path

from bench.table import BEGIN, END, README, record_of_h200, with_table

OLD = f"""# Title

{BEGIN}| example | workload | start | best | gain | NumPy | against NumPy | of the limit |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |
| matmul | square | 10 ms | 2 ms | **5.00x** | 2 ms | 1.00x | 40 % |
|  | odd | 5 ms | 1 ms | **5.00x** | 1 ms | 1.00x | 30 % |
| softmax | rows | 12 ms | 2 ms | **6.00x** | 9 ms | 4.50x | 15 % |

Measured on 2 cores of X, g++.
{END}

After.
"""
NEW = {"softmax": [("softmax", "rows", "12 ms", "1 ms", "**12.00x**", "9 ms", "9.00x", "30 %")]}
ROW = {"workload": "odd", "start_seconds": 8e-6, "best_seconds": 4e-6, "gain": 2.0, "share_of_limit": 0.25}
ABOUT = {"chip": "NVIDIA H200", "driver": "580", "nvcc": "nvcc 13.0", "date": "2026-11-30T10:00:00"}
GPU = {**ABOUT, "words": "3 iterations", "rows": {"matmul": [ROW]}}


def test_other_rows_are_kept_and_the_record_s_columns_are_filled_in() -> None:
    text = with_table(OLD, NEW, "Measured on 4 cores of Y, g++.", GPU)
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert lines[2] == "| matmul | square | 10 ms | 2 ms | **5.00x** | 2 ms | 1.00x | 40 % |  |  |  |  |"
    assert lines[3].endswith("| 30 % | 8.000 µs | 4.000 µs | **2.00x** | 25 % |")
    assert lines[4].startswith("| softmax | rows | 12 ms | 1 ms | **12.00x** |")
    assert "4 cores of Y" in text and "2 cores of X" not in text
    assert "On an NVIDIA H200 (driver 580, 2026-11-30): 3 iterations." in text
    assert text.startswith("# Title\n") and text.endswith("\n\nAfter.\n")


def test_bringing_it_up_to_date_again_changes_nothing() -> None:
    once = with_table(OLD, NEW, None, GPU)
    assert "2 cores of X" in once
    assert with_table(once, {}, None, GPU) == once


def test_the_readme_says_what_the_record_says() -> None:
    text = Path(README).read_text(encoding="utf-8")
    assert with_table(text, {}, None, record_of_h200()) == text
