"""Arguments that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

RunArgument = Annotated[
    Path,
    typer.Argument(metavar="RUN", help="A run directory, such as results/<device>/<sweep>.", show_default=False),
]
