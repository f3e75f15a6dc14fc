"""Trip-wires name what no honest kernel writes, by line, and leave honest text alone."""

from __future__ import annotations

import pytest

from tools.records import Kernel
from tools.screen import screen

HONEST = """#include "task.h"
#include <cmath>
// fork() and system() in a comment, "socket(" too; /proc/self/maps
/* getenv("HOME")
   asm("syscall") */
struct Model { void fork_join(); Model clone() const { return *this; } };
static int exec_tile(int x) { return x; }
static const char* message = "call fork() or open socket(";
extern "C" void solve(const task::Args& args, void*) {
    Model model;
    const long million = 1'000'000;
    const char quote = '"';
    model.clone().fork_join();
    exec_tile(3);
    asm volatile("" ::: "memory");
    args.y[0] = quote + million;
}
"""


def kernel(text: str, **more: str) -> Kernel:
    return Kernel(language="cpp", files={"kernel.cpp": text, **more})


def test_honest_text_passes() -> None:
    assert screen(kernel(HONEST)) == ()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("  if (fork() == 0) return;", "processes"),
        ("  std::system(\"true\");", "processes"),
        ("  ::execve(a, b, c);", "processes"),
        ("#include <sys/socket.h>", "network"),
        ("  void* h = dlopen(\"libm.so\", 1);", "libraries"),
        ("  syscall(SYS_getpid);", "the system"),
        ("  asm volatile(\"syscall\" : \"=a\"(r));", "assembly"),
        ("  __asm__(\".incbin \\\"/etc/passwd\\\"\");", "assembly"),
        ("  const char* home = getenv(\"HOME\");", "environment"),
        ("  std::ifstream f(\"/proc/self/maps\");", "its own process"),
        ("#include \"/etc/hostname\"", "own files"),
        ("#include \"../../secret.h\"", "own files"),
    ],
)  # fmt: skip
def test_what_no_honest_kernel_writes_is_named_by_line(line: str, said: str) -> None:
    found = screen(kernel(f"// one\n// two\n{line}\n"))
    assert [(item.file, item.line) for item in found] == [("kernel.cpp", 3)]
    assert said in found[0].message


def test_a_call_split_by_a_line_continuation_or_in_another_file_is_seen() -> None:
    assert screen(kernel("int f() { return fo\\\nrk (); }\n")) == ()  # a trip-wire only: the sandbox stops this one
    found = screen(kernel("\n", **{"part.hpp": "\n\nint x = ptrace(0, 0, 0, 0);\n"}))
    assert [(item.file, item.line) for item in found] == [("part.hpp", 3)]


def test_a_kernel_that_brings_the_generated_header_is_refused() -> None:
    assert screen(kernel("\n", **{"task.h": "#pragma once\n"}))[0].file == "task.h"


def test_long_texts_are_screened_in_one_pass() -> None:
    """Each took minutes when every start was tried against the rest of the file."""
    assert screen(kernel("// words\n" * 20_000)) == ()
    assert screen(kernel("#define Q asm\n" * 20_000)) == ()
    assert screen(kernel('asm volatile(asm_words "a" asm "b" "syscall");\n')) != ()
