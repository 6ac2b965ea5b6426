"""``python -m benchmarks <command>``: runs an experiment, prints its tables, writes its results."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import (
    active,
    active_ablation,
    interactions,
    oddgp,
    oddgp_ablation,
    outputs,
    overhead,
    precompute,
    readme,
    suite,
    table1,
)
from benchmarks.ablations import ABLATIONS
from benchmarks.closed_forms import CLOSED_FORMS
from benchmarks.curves import CURVES, RUNTIME
from benchmarks.experiment import Experiment, Planned, positive
from benchmarks.games import GAMES, GameUnavailableError, count_instances, count_players
from benchmarks.methods import METHODS, MethodUnavailableError, resolve_methods
from benchmarks.report import provenance, read_rows, recorded, table
from benchmarks.runner import run_tasks
from benchmarks.spectrum import SPECTRUM

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

EXPERIMENTS: tuple[Experiment, ...] = (
    table1.EXPERIMENT,
    CURVES,
    RUNTIME,
    *ABLATIONS,
    SPECTRUM,
    oddgp.EXPERIMENT,
    oddgp_ablation.EXPERIMENT,
    interactions.EXPERIMENT,
    interactions.TRIPLES,
    suite.EXPERIMENT,
    active.EXPERIMENT,
    active_ablation.EXPERIMENT,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        arguments: The command line; that of the process by default.

    Returns:
        The exit code.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    args = _parser().parse_args(arguments)
    try:
        return args.run(args, arguments)  # type: ignore[no-any-return]
    except (GameUnavailableError, MethodUnavailableError) as error:
        sys.exit(f"python -m benchmarks: {error}")


def _parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="The paper's experiments; see benchmarks/README.md.",
    )
    commands = parser.add_subparsers(required=True, metavar="command")
    for experiment in EXPERIMENTS:
        command = commands.add_parser(
            experiment.name, help=experiment.question, description=experiment.question
        )
        _add_options(command, experiment)
        command.set_defaults(run=_run_experiment, experiment=experiment)
    command = commands.add_parser("overhead", help=overhead.QUESTION, description=overhead.QUESTION)
    overhead.add_options(command)
    command.set_defaults(run=overhead.run)
    command = commands.add_parser(
        "precompute", help=precompute.PURPOSE, description=precompute.PURPOSE
    )
    precompute.add_options(command)
    command.set_defaults(run=precompute.run)
    purpose = "How much time do workers and a store save a slow game?"
    command = commands.add_parser("evaluation", help=purpose, description=purpose)
    command.add_argument("--check", action="store_true", help="exit with 1 if a target is missed")
    module = [sys.executable, "-m", "benchmarks.evaluation"]
    command.set_defaults(run=lambda _, arguments: subprocess.call([*module, *arguments[1:]]))
    command = commands.add_parser("outputs", help=outputs.QUESTION, description=outputs.QUESTION)
    outputs.add_options(command)
    command.set_defaults(run=outputs.run)
    purpose = "Write the tables of benchmarks/README.md anew, from the committed results."
    command = commands.add_parser("readme", help=purpose, description=purpose)
    command.set_defaults(run=lambda *_: readme.write(EXPERIMENTS))
    return parser


def _add_options(command: argparse.ArgumentParser, experiment: Experiment) -> None:
    """Add what all experiments take."""
    command.add_argument(
        "--games",
        "--families",
        type=lambda text: text.split(","),
        default=list(experiment.games),
        metavar="A,B",
        help=f"games, of {', '.join([*GAMES, *CLOSED_FORMS])} (default: {', '.join(experiment.games)})",
    )
    command.add_argument(
        "--table",
        type=Path,
        action="append",
        default=[],
        metavar="PATH",
        help="a further game of precomputed values: a table, a game that shapiq stored, or a folder "
        "of such files; may be repeated",
    )
    command.add_argument(
        "--tables",
        type=Path,
        metavar="DIR",
        help="where the tables of distilbert, vit16 and estate-tabpfn lie "
        "(default: $SHAPIQ_ODDSHAP_TABLES, else ../shared/data/tables beside the checkout)",
    )
    command.add_argument(
        "--instances",
        type=int,
        default=experiment.instances,
        metavar="N",
        help="explained predictions per game (default: %(default)s, or as many as a table holds)",
    )
    command.add_argument(
        "--seeds",
        type=positive,
        default=1,
        metavar="N",
        help="runs of everything that differ in their seeds (default: %(default)s)",
    )
    command.add_argument(
        "--methods",
        type=lambda text: text.split(","),
        default=experiment.methods,
        metavar="A,B",
        help=f"methods, of {', '.join(METHODS)}",
    )
    command.add_argument(
        "--budgets",
        type=lambda text: [int(part) for part in text.split(",")],
        metavar="M,M",
        help="evaluations instead of the experiment's own",
    )
    command.add_argument(
        "--budgets-per-player",
        type=lambda text: [float(part) for part in text.split(",")],
        metavar="F,F",
        help="evaluations per player instead of the experiment's own",
    )
    command.add_argument(
        "--jobs", type=int, default=1, metavar="N", help="processes (default: %(default)s)"
    )
    command.add_argument(
        "--output",
        type=Path,
        default=Path("build/benchmarks") / experiment.name,
        metavar="DIR",
        help="where results.csv, README.md and figures go (default: %(default)s)",
    )
    command.add_argument(
        "--resume",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="keep the rows that results.csv already holds and run the others (the default)",
    )
    command.add_argument(
        "--reuse",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="a results.csv of another run, whose rows on the same instances and budgets come along, "
        "of whatever method; may be repeated",
    )
    if experiment.met is not None:
        command.add_argument("--check", action="store_true", help="exit with 1 if a bar is missed")
    experiment.add_options(command)


def _run_experiment(args: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Run an experiment and write its results."""
    experiment: Experiment = args.experiment
    methods = resolve_methods(args.methods, extra=experiment.methods or ())
    games, skipped = _available(experiment, args)
    for name, reason in skipped.items():
        print(f"Skipped {name}: {reason}.")
    if not games:
        return os.EX_UNAVAILABLE
    for file in args.reuse:
        if not file.is_file():
            sys.exit(f"python -m benchmarks: there is no {file} to reuse; give a results.csv")
    tasks = [
        replace(task, repetition=repetition)
        for game in games
        for task in experiment.plan(game, methods, _budgets(args, game.n))
        for repetition in range(args.seeds)
    ]
    with recorded(args.output, arguments, resume=args.resume):
        results = args.output / "results.csv"
        run_tasks(
            tasks, results, work=experiment.work, jobs=args.jobs, resume=args.resume,
            reuse=args.reuse,
        )  # fmt: skip
    text = summary(experiment, args.output)
    discussion = args.output / "discussion.md"
    if discussion.exists():  # written by hand, so that it survives the next run
        text += "\n" + discussion.read_text()
    if skipped:
        text += "\n## Skipped games\n\n" + table(["game", "reason"], map(list, skipped.items()))
    header = f"# {experiment.name}\n\n{experiment.question}\n\n{provenance(args.output)}\n"
    (args.output / "README.md").write_text(header + text)
    print(text)
    print(f"Written to {args.output}.")
    if experiment.met is None or not args.check:
        return os.EX_OK
    return os.EX_OK if experiment.met(with_values(args.output)) else 1


def _budgets(args: argparse.Namespace, n: int) -> list[int] | None:
    """Return the given budgets of a game of ``n`` players, ``None`` for the experiment's own."""
    if args.budgets_per_player:
        return [round(factor * n) for factor in args.budgets_per_player]
    budgets: list[int] | None = args.budgets
    return budgets


def _available(
    experiment: Experiment, args: argparse.Namespace
) -> tuple[list[Planned], dict[str, str]]:
    """Return the games that can be built here, and why the others cannot."""
    games, skipped = [], {}
    for source in experiment.sources(args):
        try:
            count = count_instances(source)
            chosen = experiment.choose(args, source, count)
            if chosen:
                games.append(Planned(source, count_players(source), chosen))
            else:
                skipped[source.name] = f"none of its instances is asked for (it has {count})"
        except GameUnavailableError as error:
            skipped[source.name] = str(error)
    return games, skipped


def with_values(directory: Path) -> pd.DataFrame:
    """Return those of a directory's rows that have a value."""
    rows = read_rows(directory / "results.csv")
    return rows[rows["value"].notna()]


def summary(experiment: Experiment, directory: Path) -> str:
    """Return a directory's results as Markdown: what the experiment says, and what has no value."""
    rows = read_rows(directory / "results.csv")
    without = rows[rows["value"].isna()].copy()
    without["note"] = without["note"].astype(str).str.replace(r"budget=\d+", "budget=…", regex=True)
    without = without.groupby(["method", "game", "note"]).size()
    text = experiment.summarise(rows[rows["value"].notna()], directory)
    if len(without):
        lines = [[*map(str, key), str(count)] for key, count in without.items()]
        text += "\n## Without a value\n\n" + table(["method", "game", "reason", "runs"], lines)
    return text + _mixed_versions(rows)


def _mixed_versions(rows: pd.DataFrame) -> str:
    """Return which methods' rows were made by several versions, or nothing."""
    versions = rows["versions"].fillna("not noted")
    counts = versions.groupby([rows["method"], versions]).size()
    lines = [
        [str(method), str(version), str(count)]
        for (method, version), count in counts.items()
        if len(counts[method]) > 1
    ]
    header = ["method", "version", "rows"]
    return "\n## Rows by several versions\n\n" + table(header, lines) if lines else ""


if __name__ == "__main__":
    sys.exit(main())
