"""Writes what ``benchmarks/README.md`` says about results, from the committed results."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import outputs, overhead
from benchmarks.claims import claims_table
from benchmarks.report import minutes, read_rows, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from benchmarks.experiment import Experiment

__all__ = ["filled", "write"]

_HERE = Path(__file__).parent
_PAGE, _RESULTS = _HERE / "README.md", _HERE / "results"


def write(experiments: Sequence[Experiment]) -> int:
    """Replace the generated parts of the page."""
    _PAGE.write_text(filled(_PAGE.read_text(), experiments))
    print(f"Written to {os.path.relpath(_PAGE)}.")
    return os.EX_OK


def filled(page: str, experiments: Sequence[Experiment], results: Path = _RESULTS) -> str:
    """Return a page with its generated parts between their comments.

    Args:
        page: Markdown with ``<!-- commands -->…<!-- end -->`` and the like.
        experiments: The experiments.
        results: The directory of committed results.
    """
    parts = {"commands": _commands(experiments, results), "claims": claims_table(_load(results))}
    for name, text in parts.items():
        start, end = f"<!-- {name} -->\n", "<!-- end -->"
        before, rest = page.split(start, 1)
        page = before + start + text + end + rest.split(end, 1)[1]
    return page


def _load(results: Path) -> dict[str, pd.DataFrame]:
    """Return the rows with a value of every experiment that has been run."""
    rows = {file.parent.name: read_rows(file) for file in sorted(results.glob("*/results.csv"))}
    return {name: r[r["value"].notna()] for name, r in rows.items() if "value" in r}


def _commands(experiments: Sequence[Experiment], results: Path) -> str:
    """Return what each command answers and how long its committed run took."""
    questions = {each.name: each.question for each in experiments} | {
        "overhead": overhead.QUESTION,
        "outputs": outputs.QUESTION,
    }
    lines = []
    for name, question in questions.items():
        done = (results / name / "runs.json").exists()
        took = f"{minutes(results / name):.0f} min" if done else "not run"
        lines.append([f"[`{name}`](results/{name})" if done else f"`{name}`", question, took])
    return table(["command", "what it answers", "took"], lines)
