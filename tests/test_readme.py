"""The README's Python, run as a reader runs it."""

import re
from pathlib import Path

import matplotlib as mpl

README = Path(__file__).parents[1] / "README.md"


def test_the_examples_run(tmp_path, monkeypatch):
    mpl.use("Agg")
    monkeypatch.chdir(tmp_path)
    names = {"retrain_and_score": lambda coalitions: coalitions.sum(axis=1) ** 1.5}
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        exec(compile(block, str(README), "exec"), names)
    assert names["game"].report().reused >= 400  # of the 800, those that the first call has paid
