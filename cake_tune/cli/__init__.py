"""The ``cake-tune`` command: parse, call, print. No logic lives here."""

from cake_tune.cli.app import main

__all__ = ["main"]
