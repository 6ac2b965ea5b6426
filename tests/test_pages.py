"""The Python of the README and of the documentation's pages, run as a reader runs it."""

import re
import shlex
import sys
import tomllib
import warnings
from pathlib import Path
from types import ModuleType

import matplotlib.pyplot as plt
import pytest
from sklearn.ensemble import RandomForestRegressor

import shapiq_oddshap

ROOT = Path(__file__).parents[1]
BUILT = ("auto_examples", "generated")
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *(
        page
        for page in sorted((ROOT / "docs").rglob("*.md"))
        if not set(page.relative_to(ROOT / "docs").parts) & set(BUILT)
    ),
]
FENCE = re.compile(r"^```(\{?[\w-]*\}?)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
DIRECTIVES = {"{bibliography}", "{eval-rst}", "{include}", "{toctree}"}


def blocks(page, language):
    return [code for tag, code in FENCE.findall(page.read_text("utf-8")) if tag == language]


@pytest.fixture
def tabpfn(monkeypatch):
    """Let pages import TabPFN: a forest answers in its place."""
    module = ModuleType("tabpfn")

    class TabPFNRegressor(RandomForestRegressor):
        def __init__(self):
            super().__init__(n_estimators=10, random_state=0)

    TabPFNRegressor.__module__ = "tabpfn.regressor"
    module.TabPFNRegressor = TabPFNRegressor
    monkeypatch.setitem(sys.modules, "tabpfn", module)


@pytest.mark.usefixtures("tabpfn")
@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if blocks(page, "python")],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_the_python_of_a_page_runs(page, tmp_path, monkeypatch):
    plt.switch_backend("Agg")
    monkeypatch.chdir(tmp_path)
    names = {"retrain_and_score": lambda coalitions: coalitions.sum(axis=1) ** 1.5}
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # what a reader runs first does not complain
        for code in blocks(page, "python"):
            exec(compile(code, str(page), "exec"), names)
    plt.close("all")
    if page.name == "README.md":  # of the 800, those that the first call has paid
        assert names["game"].report().reused >= 400
    if page.name == "tabpfn.md":
        assert names["stored"].report().evaluated <= 101  # one more verifies the store
    if page.name == "data-valuation.md":
        assert names["game"].report().reused >= 100


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_no_block_of_a_page_escapes_the_tests(page):
    text = page.read_text("utf-8")
    tags = {tag for tag, _ in FENCE.findall(text)}
    assert tags <= {"python", "sh"} | DIRECTIVES
    assert len(re.findall(r"^```", text, flags=re.MULTILINE)) == 2 * len(FENCE.findall(text))


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if blocks(page, "sh")],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_the_commands_of_a_page_name_what_is_there(page):
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), flags=re.MULTILINE)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
        "optional-dependencies"
    ]
    for line in "".join(blocks(page, "sh")).splitlines():
        words = shlex.split(line, comments=True)
        while words and re.fullmatch(r"\w+=\S*", words[0]):  # variables of one command
            words = words[1:]
        match words:
            case ["make", *named]:
                assert set(named) <= set(targets), line
            case ["python", "-m", ("venv" | "pytest"), *_]:
                pass
            case ["python", "-m", "pip", "install", *named] | ["pip", "install", *named]:
                place = named[-1]
                assert re.fullmatch(r"\.(\[[\w,]+\])?", place), line
                assert set(place[2:-1].split(",")) - {""} <= set(extras), line
            case ["python", "-m", module, *_]:
                assert (ROOT / module / "__main__.py").exists(), line
            case ["python", script, *_]:
                assert (ROOT / script).is_file(), line
            case []:
                pass
            case _:
                pytest.fail(f"no test knows the command: {line}")


def test_every_public_name_is_on_the_page_of_the_api():
    page = (ROOT / "docs" / "api.md").read_text("utf-8")
    listed = set(re.findall(r"^   (\w+)$|^\.\. py:data:: (\w+)$", page, flags=re.MULTILINE))
    assert {"".join(name) for name in listed} == set(shapiq_oddshap.__all__)
