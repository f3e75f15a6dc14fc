"""Entry point of the `warpsmith` command: a Ctrl-C while the command line is still being loaded is quiet too."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; never returns."""
    try:
        from app.cli import run

        run()
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
    sys.exit(130)


if __name__ == "__main__":
    main()
