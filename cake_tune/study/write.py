"""Write the GPU study: report.md, CSV files and plots."""

from pathlib import Path

from cake_tune._files import whole_file
from cake_tune.study.evidence import Evidence
from cake_tune.study.figures import Figure, figures_of
from cake_tune.study.markdown import render
from cake_tune.study.tables import write_tables


def write_study(evidence: Evidence, out: Path) -> list[Figure]:
    """Write everything into ``out``, and return the figures that have a target.

    The same evidence gives the same bytes.
    """
    out.mkdir(parents=True, exist_ok=True)
    figures = figures_of(evidence)
    write_tables(evidence, figures, out)
    # Imported here: matplotlib takes half a second, which whoever only wants the figures need not pay.
    from cake_tune.study.plots import draw_all

    text = render(evidence, figures, draw_all(evidence, out / "plots"), out)
    with whole_file(out / "report.md") as file:
        file.write(text)
    return figures
