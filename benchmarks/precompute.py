"""``precompute``: all values of image or language games, as a file for ``--table``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from shapiq import ExactComputer

from benchmarks.games import GameUnavailableError, table_lookup
from shapiq_oddshap import EvaluatedGame

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from shapiq import Game

__all__ = ["PURPOSE", "add_options", "run"]

PURPOSE = (
    "Evaluate all coalitions of ViT16's patches of images, or of DistilBERT's tokens of texts, as a "
    "table for --table. It needs torch and the weights: pip install 'shapiq[games]'."
)
_MOST_PLAYERS = 20


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    inputs = command.add_mutually_exclusive_group(required=True)
    inputs.add_argument("--images", type=Path, nargs="+", metavar="FILE", help="image files")
    inputs.add_argument(
        "--texts", type=Path, metavar="FILE", help="a text per line, all of as many tokens"
    )
    command.add_argument(
        "--output",
        type=Path,
        required=True,
        metavar="FILE",
        help="the table, a new .npz file; until it is complete, values are kept in .sqlite files "
        "beside it, from which the same command goes on after an interruption",
    )


def run(args: argparse.Namespace, _arguments: Sequence[str]) -> int:
    """Evaluate the games and write the table.

    Raises:
        GameUnavailableError: If there is no torch, the output exists, or the inputs do not make one
            table.
    """
    output: Path = args.output
    if output.suffix != ".npz" or output.exists():
        msg = f"received the output {output}, but a new file is required that ends in .npz"
        raise GameUnavailableError(msg)
    games = list(_games(args))
    players = [game.n_players for _, game in games]
    if len(set(players)) != 1 or players[0] > _MOST_PLAYERS:
        msg = (
            f"received games of {players} players, but the same number for all is required, and at "
            f"most {_MOST_PLAYERS}; give images, or texts of as many tokens"
        )
        raise GameUnavailableError(msg)
    n = players[0]
    coalitions = (np.arange(2**n)[:, None] >> np.arange(n) & 1).astype(bool)
    values, shapley, stores = [], [], []
    for index, (name, game) in enumerate(games):
        stores.append(output.with_name(f"{output.stem}-{index}.sqlite"))
        evaluated = EvaluatedGame(game, batch_size=64, progress=True, store=stores[-1], key=name)
        values.append(evaluated(coalitions))
        exact = ExactComputer(table_lookup(values[-1], n), n)("SV", 1)
        shapley.append(exact.get_n_order_values(1))
    np.savez_compressed(output, n_players=n, values=values, shapley_values=shapley)
    for store in stores:
        store.unlink()
    print(f"Written to {output}.")
    return 0


def _games(args: argparse.Namespace) -> Iterator[tuple[str, Game]]:
    """Yield a game per image or text, under a name that tells it from others."""
    try:
        from shapiq_games import ImageClassifier, SentimentAnalysis
    except ImportError:
        msg = "image and language games come with shapiq >= 1.8, which needs Python >= 3.12"
        raise GameUnavailableError(msg) from None
    try:
        for file in args.images or ():
            yield str(file), ImageClassifier(file, "vit_16_patches", normalize=False)
        for text in args.texts.read_text().splitlines() if args.texts else ():
            yield text, SentimentAnalysis(text, normalize=False)
    except (ImportError, OSError) as error:  # no torch, no weights, no such file
        raise GameUnavailableError(str(error)) from error
