"""Entry point of the `warpsmith` command: a Ctrl-C while the command is still being loaded is heard, and quiet."""

from __future__ import annotations

import sys

from app.interrupts import end_on_ctrl_c


def main() -> None:
    """Run the command line; never returns."""
    end_on_ctrl_c()
    try:
        from app.cli import run

        run()
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
    sys.exit(130)


if __name__ == "__main__":
    main()
