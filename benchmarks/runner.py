"""Runs tasks into a tidy CSV, row by row, so that an interrupted run can continue.

A row is one approximation. Rows are appended as they finish and sorted at the end, so that an
interrupted and resumed run gives the same file as an uninterrupted one, but for the measured
seconds in the columns ``TIMINGS``.
"""

from __future__ import annotations

import csv
import io
import json
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from importlib.metadata import version
from typing import TYPE_CHECKING

import joblib
import numpy as np
from threadpoolctl import threadpool_limits
from tqdm import tqdm

import shapiq_oddshap
from benchmarks.games import CountedGame, Source, load_instance
from benchmarks.methods import METHODS, MethodUnavailableError
from shapiq_oddshap.approximators.base import ShapleyApproximator

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.games import Instance

__all__ = ["COLUMNS", "TIMINGS", "Row", "Task", "Work", "approximate", "row_of", "run_tasks"]

_VERSIONS = f"{shapiq_oddshap.__version__}, shapiq {version('shapiq')}"
TIMINGS = ("seconds", "stages")
_KEY = ("game", "instance", "method", "budget", "options")


@dataclass(frozen=True)
class Task:
    """What makes a row.

    Attributes:
        source: The game.
        instance: Which prediction is explained; also the method's seed.
        method: The method's name.
        budget: Evaluations that it may make.
        options: Its options as JSON.
    """

    source: Source
    instance: int
    method: str
    budget: int
    options: str = "{}"

    @property
    def key(self) -> tuple[str, ...]:
        """The row's key as it stands in the file."""
        return self.source.name, str(self.instance), self.method, str(self.budget), self.options


@dataclass(frozen=True)
class Row:
    """A line of the CSV.

    Attributes:
        game: The game's name.
        instance: Which prediction was explained; also the method's seed.
        method: The method's name.
        budget: Evaluations that it was allowed.
        options: Its options as JSON.
        order: The interaction order that ``value`` belongs to, in spectra only.
        value: The mean squared error; in spectra the share of the energy.
        evaluations: Evaluations that were made.
        covered: Share of the true values within the 90 % intervals, of methods that give any.
        n: Number of players.
        note: Why there is no value.
        seconds: Seconds spent outside the game.
        stages: Seconds by stage as JSON, of methods that report them.
        scale: The mean of the squared Shapley values, which makes ``value`` relative.
        versions: Of the package and of shapiq, since resumed files may mix them; empty in rows of
            files that are older than this column.
    """

    game: str
    instance: int
    method: str
    budget: int
    options: str
    order: int | None = None
    value: float | None = None
    evaluations: int | None = None
    covered: float | None = None
    n: int | None = None
    note: str = ""
    seconds: float | None = None
    stages: str = ""
    scale: float | None = None
    versions: str = ""


COLUMNS = tuple(field.name for field in fields(Row))
Work = Callable[[Task], list[Row]]


def approximate(task: Task) -> list[Row]:
    """Run one approximation and measure its error; a refusal or failure becomes a note."""
    instance = load_instance(task.source, task.instance)
    try:
        return [_measure(task, instance)]
    except MethodUnavailableError as error:
        note = f"left out: {error}"
    except Exception as error:  # noqa: BLE001 - a method that fails is a result of the comparison
        note = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:200]}"
    return [row_of(task, n=instance.n, note=note)]


def row_of(task: Task, **columns: object) -> Row:
    """Return a row with the task's key."""
    key = task.source.name, task.instance, task.method, task.budget, task.options
    return Row(*key, versions=_VERSIONS, **columns)  # type: ignore[arg-type]


def _measure(task: Task, instance: Instance) -> Row:
    """Approximate within the budget, on one thread."""
    method = METHODS[task.method]
    if not method.affordable(instance.n, task.budget):
        msg = "it would take minutes at this size"
        raise MethodUnavailableError(msg)
    game, stages, covered = CountedGame(instance), {}, None
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        approximator = method.build(
            n=instance.n, random_state=task.instance, **json.loads(task.options)
        )
        if isinstance(approximator, ShapleyApproximator):
            estimate = approximator.estimate(task.budget, game)
            values, seconds = estimate.values, estimate.diagnostics.seconds
            stages = {stage: round(spent, 6) for stage, spent in seconds.items()}
            if estimate.variances is not None:
                covered = instance.coverage(values.get_n_order_values(1), estimate.variances)
        else:
            values = approximator.approximate(budget=task.budget, game=game)
        elapsed = time.perf_counter() - start
    return row_of(
        task,
        value=instance.mean_squared_error(values.get_n_order_values(1)),
        evaluations=game.evaluations,
        covered=covered,
        n=instance.n,
        seconds=round(elapsed - game.seconds, 6),
        stages=json.dumps(stages) if stages else "",
        scale=float(np.mean(instance.shapley**2)),
    )


def run_tasks(
    tasks: Sequence[Task],
    file: Path,
    *,
    work: Work = approximate,
    jobs: int = 1,
    resume: bool = True,
) -> None:
    """Run the tasks that ``file`` does not hold yet, and leave it sorted.

    Args:
        tasks: What to run.
        file: The CSV.
        work: Makes the rows of a task.
        jobs: Number of processes.
        resume: Whether to keep the rows that the file holds.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    rows = _read(file) if resume else []
    _write(file, rows)
    done = {tuple(row[column] for column in _KEY) for row in rows}
    missing = [task for task in tasks if task.key not in done]
    parallel = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")
    results = parallel(joblib.delayed(work)(task) for task in missing)
    with file.open("a", newline="") as stream:
        for made in tqdm(results, total=len(tasks), initial=len(tasks) - len(missing), unit="run"):
            # one write per task, so that an interruption leaves whole tasks
            stream.write(_text([asdict(row) for row in made]))
            stream.flush()
    _write(file, _read(file))


def _read(file: Path) -> list[dict[str, str]]:
    """Return the file's rows; a last line that an interruption cut short goes with its task."""
    if not file.exists():
        return []
    text = file.read_text()
    rows = [
        dict.fromkeys(COLUMNS, "") | row  # an older file has fewer columns
        for row in csv.DictReader(io.StringIO(text))
    ]
    if rows and not text.endswith("\n"):
        cut = [rows[-1][column] for column in _KEY]
        rows = [row for row in rows if [row[column] for column in _KEY] != cut]
    return rows


def _write(file: Path, rows: list[dict[str, str]]) -> None:
    """Replace the file by the sorted rows, at once."""
    numbers = ("instance", "budget", "order")
    order = sorted(
        rows,
        key=lambda row: tuple(
            int(row[column] or -1) if column in numbers else row[column]
            for column in (*_KEY, "order")
        ),
    )
    new = file.with_suffix(".tmp")
    new.write_text(",".join(COLUMNS) + "\n" + _text(order))
    new.replace(file)


def _text(rows: Sequence[dict[str, object]] | Sequence[dict[str, str]]) -> str:
    """Return rows as CSV lines."""
    stream = io.StringIO()
    csv.DictWriter(stream, COLUMNS, lineterminator="\n").writerows(rows)
    return stream.getvalue()
