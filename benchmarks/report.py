"""Results: under which circumstances they were made, their rows, and tables in Markdown."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shlex
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

import shapiq_oddshap

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = ["minutes", "number", "provenance", "read_rows", "recorded", "table", "versions_in_short"]

_PACKAGES = ("shapiq", "numpy", "scipy", "lightgbm", "xgboost", "scikit-learn")


def number(value: float) -> str:
    """Return two significant digits, as in the paper; a dash for none."""
    return "-" if isnan(value) else f"{value:.1e}".replace("e-0", "e-").replace("e+0", "e")


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; columns of numbers are aligned to the right."""
    body = list(rows)
    columns = list(zip(*body, strict=True)) or [("",) for _ in header]
    numeric = [all(cell[:1] in "0123456789-*" for cell in column) for column in columns]
    lines = [header, ["---:" if right else "---" for right in numeric], *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def machine() -> str:
    """Return the processor's model and the number of cores that may be used."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.split(":", 1)[1] for line in info.read_text().splitlines() if "model name" in line
        ]
        model = names[0].strip() if names else model
    return f"{os.cpu_count()} x {model}, {platform.system()}"


def versions() -> dict[str, str]:
    """Return the versions of what determines the results; the package's own as a digest too."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "absent"
    return {**found, "shapiq_oddshap": _own_version()}


@cache
def versions_in_short() -> str:
    """Return the versions of the package and of shapiq, as they stand in every row."""
    return f"{_own_version()}, shapiq {version('shapiq')}"


@cache
def _own_version() -> str:
    """Return the package's version with a digest of its files, as they are when first asked."""
    digest = hashlib.sha256()
    for file in sorted(Path(shapiq_oddshap.__file__).parent.rglob("*.py")):
        digest.update(file.read_bytes())
    return f"{shapiq_oddshap.__version__} ({digest.hexdigest()[:10]})"


@contextmanager
def recorded(directory: Path, arguments: Sequence[str], *, resume: bool) -> Iterator[None]:
    """Note a run in the directory's ``runs.json``, with its minutes even if it is interrupted.

    Args:
        directory: The results' directory.
        arguments: The command's arguments; of absolute paths only the last part is kept.
        resume: Whether earlier runs contributed rows.
    """
    file = directory / "runs.json"
    earlier = json.loads(file.read_text()) if resume and file.exists() else []
    shown = [f".../{Path(part).name}" if Path(part).is_absolute() else part for part in arguments]
    start = time.monotonic()
    made = {
        "command": "python -m benchmarks " + shlex.join(shown),
        "date": datetime.now(tz=UTC).strftime("%Y-%m-%d"),
        "machine": machine(),
        "versions": versions(),
    }
    try:
        yield
    finally:
        minutes = round((time.monotonic() - start) / 60, 1)
        directory.mkdir(parents=True, exist_ok=True)
        runs = [*earlier, {**made, "minutes": minutes}]
        file.write_text(json.dumps(runs, indent=2, ensure_ascii=False) + "\n")


def provenance(directory: Path) -> str:
    """Return the directory's runs as Markdown."""
    parts = []
    for run in json.loads((directory / "runs.json").read_text()):
        packages = ", ".join(f"{name} {number}" for name, number in run["versions"].items())
        parts.append(
            f"    {run['command']}\n\n{run['date']}, {run['minutes']} minutes on {run['machine']}; "
            f"{packages}.\n"
        )
    return "\n".join(parts)


def minutes(directory: Path) -> float:
    """Return how long the directory's runs took together."""
    return float(sum(run["minutes"] for run in json.loads((directory / "runs.json").read_text())))


def read_rows(file: Path) -> pd.DataFrame:
    """Return the rows of a CSV; one from before there were repetitions holds the first."""
    rows = pd.read_csv(file)
    return rows if "repetition" in rows else rows.assign(repetition=0)
