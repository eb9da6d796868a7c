"""The ``cake-tune`` command: parse, call, print. No logic lives here."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line. Ctrl-C ends it with 130 and no more words, also while it still loads."""
    try:
        from cake_tune.cli.app import run

        run()
    except KeyboardInterrupt:
        sys.exit(130)
