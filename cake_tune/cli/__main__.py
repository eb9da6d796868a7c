"""``python -m cake_tune.cli``: the command without its script."""

from cake_tune.cli import main

main()
