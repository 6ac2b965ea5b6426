"""The way upstream: parts of this package laid into a shapiq that is made from the installed one."""

import ast
import importlib.metadata
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import shapiq

from tests.helpers import TableGame, shapley_by_definition

ROOT = Path(__file__).parents[1]
TOOL = ROOT / "tools" / "upstream.py"
sys.path.append(str(TOOL.parent))

import checkout  # noqa: E402
import compare_oddshap  # noqa: E402
import transplant  # noqa: E402
import upstream  # noqa: E402

needs_shapiq_1_8 = pytest.mark.skipif(
    not importlib.metadata.version("shapiq").startswith("1.8."),
    reason="patches are for shapiq's present version, 1.8; this environment has another",
)
CONFIGURATION = """
[tool.ruff]
line-length = 100
target-version = "py312"
src = ["tests", "src"]

[tool.ruff.lint]
select = ["ALL"]
ignore = ["E501", "N803", "N806", "COM812", "FIX002", "PLR", "C901", "N802", "CPY001", "PLC0415"]

[tool.ruff.lint.per-file-ignores]
"tests/**" = ["ALL"]
"examples/**" = ["ALL"]

[tool.ruff.lint.pydocstyle]
convention = "google"

[tool.ruff.lint.isort]
known-first-party = ["shapiq"]
combine-as-imports = true
"""
MARKERS = """
import pytest

skip_if_no_lightgbm = pytest.mark.skipif(False, reason="it is here")


def is_installed(name):
    return True
"""
GIT = {
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_CONFIG_GLOBAL": os.devnull,
}


def run(*command, cwd, environment=()):
    """Run a command and return what it printed."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **GIT, **dict(environment)},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def checkout_of_installed(root):
    """Make a repository of the installed shapiq, as far as it is installed."""
    hidden = shutil.ignore_patterns("__pycache__")
    installed = Path(shapiq.__file__).parent
    for folder in installed.parent.glob("shapiq*"):
        if folder.name in {"shapiq", "shapiq.libs"}:  # the second has what its extensions link to
            shutil.copytree(folder, root / "src" / folder.name, ignore=hidden)
    (root / "pyproject.toml").write_text(CONFIGURATION)
    (root / "CHANGELOG.md").write_text("# Changelog\n\n## v1.8.0\n")
    (root / ".gitignore").write_text("__pycache__\n*.so\n*.pyd\nshapiq.libs\n")
    run("git", "init", "--quiet", "--initial-branch", "main", cwd=root)
    run("git", "add", ".", cwd=root)
    run("git", "commit", "--quiet", "--message", "shapiq", cwd=root)
    return root


@pytest.fixture(scope="module")
def laid(tmp_path_factory):
    """A checkout with all patches, and what the tool printed."""
    root = checkout_of_installed(tmp_path_factory.mktemp("laid"))
    printed = run(sys.executable, TOOL, root, "--diffs", root / ".git" / "diffs", cwd=root)
    return root, printed


def run_with(root, code):
    """Run code with the checkout's shapiq and without this package."""
    blocked = "import sys; sys.modules['shapiq_oddshap'] = None\n"
    environment = {"PYTHONPATH": str(root / "src"), "OMP_NUM_THREADS": "1"}
    return run(
        sys.executable, "-W", "error", "-c", blocked + code, cwd=root, environment=environment
    )


@needs_shapiq_1_8
def test_every_patch_is_a_commit_without_a_finding(laid):
    root, printed = laid
    titles = run("git", "log", "--format=%s", "--reverse", "main..odd", cwd=root).splitlines()
    assert titles == [patch.title for patch in upstream.PATCHES.values()]
    assert run("git", "status", "--porcelain", cwd=root) == ""
    findings = [line for line in printed.splitlines() if line.startswith("  ")]
    assert [each for each in findings if "comments to ty" not in each] == []
    diffs = sorted(path.name for path in (root / ".git" / "diffs").iterdir())
    assert diffs == [f"{i:04}-{name}.patch" for i, name in enumerate(upstream.PATCHES, start=1)]
    for path in (root / "src" / "shapiq" / "approximator" / "odd").rglob("*.py"):
        assert "shapiq_oddshap" not in path.read_text("utf-8").replace(
            "shapiq-oddshap.readthedocs.io", ""
        )


@needs_shapiq_1_8
def test_every_laid_approximator_plays_a_game(laid):
    code = """
import numpy as np
import shapiq
from pathlib import Path
from shapiq.approximator import PairedCoalitionSampler

assert Path(shapiq.__file__).is_relative_to(Path.cwd())
game = lambda rows: rows @ np.arange(6.0) + 3.0 * rows[:, :3].all(axis=1)
truth = np.arange(6.0) + np.repeat([1.0, 0.0], 3)
for approximator in (
    shapiq.FFDRD(6, random_state=0),
    shapiq.FFDRDCorrected(6, random_state=0),
    shapiq.OddGP(6, random_state=0),
    shapiq.OddSHAP(6, random_state=0),
    shapiq.OddSHAP(6, sampler=PairedCoalitionSampler(6), random_state=0),
):
    values = approximator.approximate(64, game)
    np.testing.assert_allclose(values.get_n_order_values(1), truth, atol=1e-8)
    print(type(approximator).__name__)
values, variances = shapiq.OddGP(12, random_state=0).approximate_with_variance(
    60, lambda rows: np.tanh(rows @ np.linspace(-1, 1, 12))
)
assert variances.shape == (12,) and (variances > 0).all()
for name, kind in (("auto", "OddSHAP"), ("oddshap", "OddSHAP"), ("oddgp", "OddGP")):
    explainer = shapiq.AgnosticExplainer(game, n_players=6, approximator=name, random_state=0)
    assert type(explainer.approximator).__name__ == kind, name
    np.testing.assert_allclose(
        explainer.explain(budget=64).get_n_order_values(1), truth, atol=1e-8
    )
"""
    printed = run_with(laid[0], code).split()
    assert printed == ["FFDRD", "FFDRDCorrected", "OddGP", "OddSHAP", "OddSHAP"]


@needs_shapiq_1_8
def test_the_laid_tests_pass(laid):
    root = laid[0]
    tests = root / "tests" / "shapiq"
    (tests / "markers.py").write_text(MARKERS)
    options = ["-q", "-p", "no:cacheprovider", "-n", "0", "--rootdir", root, "-c", os.devnull]
    environment = {
        "PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)]),
        "OMP_NUM_THREADS": "1",
    }
    printed = run(
        sys.executable, "-m", "pytest", *options, tests, cwd=root, environment=environment
    )
    assert " passed" in printed
    assert "skipped" not in printed


@needs_shapiq_1_8
def test_a_patch_by_itself_brings_no_more_than_it_uses(tmp_path):
    root = checkout_of_installed(tmp_path / "alone")
    run(sys.executable, TOOL, root, "--only", "ffd", "--no-commit", cwd=root)
    odd = root / "src" / "shapiq" / "approximator" / "odd"
    assert (odd / "ffd.py").exists()
    assert not (odd / "oddgp.py").exists()
    assert not (odd / "trees").exists()
    assert "class PairedCoalitionSampler" not in (odd / "sampling.py").read_text("utf-8")
    assert run("git", "log", "--format=%s", cwd=root).splitlines() == ["shapiq"]
    run_with(root, "import shapiq; shapiq.FFDRD(4).approximate(16, lambda rows: rows.sum(axis=1))")
    # the next patch goes on from there
    run("git", "add", ".", cwd=root)
    run("git", "commit", "--quiet", "--message", "first", cwd=root)
    run(sys.executable, TOOL, root, "--only", "sampler", cwd=root)
    assert "class PairedCoalitionSampler" in (odd / "sampling.py").read_text("utf-8")
    names = upstream.exported(checkout.Checkout(root))
    assert names == ["FFDRD", "FFDRDCorrected", "PairedCoalitionSampler"]


def small_checkout(root):
    """Make what the tool takes for a checkout, with next to nothing in it."""
    regression = root / checkout.APPROXIMATOR / "regression"
    regression.mkdir(parents=True)
    (root / "pyproject.toml").write_text(CONFIGURATION)
    (root / "CHANGELOG.md").write_text("# Changelog\n")
    (regression / "oddshap.py").write_text('"""As by Fumagalli.2026a."""\n')
    return root


def refused(*arguments):
    """Run the tool, which fails, and return its complaint."""
    done = subprocess.run(
        [sys.executable, TOOL, *map(str, arguments)],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    return done.stderr


def test_what_is_no_checkout_is_refused(tmp_path):
    assert "a checkout of shapiq >= 1.6 is needed" in refused(tmp_path)


def test_a_passage_that_shapiq_changed_is_named_with_the_remedy(tmp_path):
    root = small_checkout(tmp_path)
    before = {path: path.read_text() for path in root.rglob("*.*") if path.is_file()}
    complaint = refused(root, "--only", "oddgp")  # pyproject.toml is changed before
    assert "src/shapiq/approximator/__init__.py: shapiq has moved it" in complaint
    assert {path: path.read_text() for path in root.rglob("*.*") if path.is_file()} == before
    complaint = refused(root)
    assert "regression/oddshap.py holds none of these passages exactly once" in complaint
    assert "adapt the edit in tools/upstream.py" in complaint


def test_uncommitted_changes_are_refused(tmp_path):
    root = small_checkout(tmp_path)
    run("git", "init", "--quiet", cwd=root)
    run("git", "add", ".", cwd=root)
    complaint = refused(root)
    assert "uncommitted changes" in complaint


def test_help_lists_the_patches():
    printed = run(sys.executable, TOOL, "--help", cwd=ROOT)
    assert ", ".join(upstream.PATCHES) in printed


def test_a_passage_that_this_package_changed_is_named():
    with pytest.raises(checkout.UpstreamError, match="proxy.py does not hold this passage"):
        upstream.amended("proxy.py", "nothing of the kind\n")


def test_only_what_ruff_finds_anew_is_a_finding(tmp_path):
    tree = checkout.Checkout(small_checkout(tmp_path))
    tree.write(
        "src/shapiq/new.py", '"""New."""\n\nimport os\n\n\ndef f(x):\n    """Do."""\n    return y\n'
    )
    rules = {finding.split()[1] for finding in tree.findings()}
    assert {"F401", "F821", "ANN001"} <= rules


# --- the comparison that the page quotes


def test_the_comparison_takes_exact_values_and_relative_errors():
    rng = np.random.default_rng(0)
    table = rng.normal(size=2**5)
    phi = shapley_by_definition(TableGame(table), 5)
    np.testing.assert_allclose(compare_oddshap.exact(table), phi, atol=1e-12)
    found = SimpleNamespace(get_n_order_values=lambda order: 1.1 * phi)
    builds = SimpleNamespace(approximate=lambda budget, game: found)
    assert compare_oddshap.error(lambda n, seed: builds, table, 4, 2) == pytest.approx(0.01)


@needs_shapiq_1_8
def test_the_comparison_prints_a_row_for_each_budget(monkeypatch, capsys):
    table = compare_oddshap.coalitions(8) @ np.arange(8.0)
    monkeypatch.setattr(compare_oddshap, "games", lambda: [table**1.1, table**0.9])
    monkeypatch.setattr(sys, "argv", ["compare_oddshap.py", "--factors", "4", "10", "--seeds", "1"])
    assert compare_oddshap.main() == 0
    rows = capsys.readouterr().out.splitlines()[1:]
    assert [row.split()[0] for row in rows] == ["4", "10"]
    assert all("KernelSHAP" in row and "(1.00)" in row and "OddSHAP" in row for row in rows)


# --- moving definitions


@pytest.fixture
def package(tmp_path):
    """A package of a few modules."""
    root = tmp_path / "old"
    files = {
        "__init__.py": "raise RuntimeError\n",
        "one.py": '''
            """One."""

            from __future__ import annotations

            from typing import TYPE_CHECKING, cast

            import numpy as np

            from old import tools
            from old.deep import taken

            if TYPE_CHECKING:
                from old.two import Unused
                from old.kinds import Kind, Other

            __all__ = ["Main", "idle"]

            LIMIT = 3
            """The limit."""

            IDLE = 4
            """Never mentioned."""


            # says why Main is so
            class Main:
                """Main."""

                def run(self, kind: Kind) -> int:
                    return tools.used(np.zeros(LIMIT)) + taken(cast("Other", kind))


            # says why idle is so
            def idle() -> Unused:
                return IDLE
        ''',
        "two.py": "class Unused: ...\n",
        "kinds.py": "class Kind: ...\n\n\nclass Other: ...\n\n\nclass Third: ...\n",
        "tools.py": "def used(x):\n    return helper(x)\n\n\ndef helper(x):\n    return x\n\n\ndef rest(x):\n    return x\n",
        "deep/__init__.py": '"""Deep."""\n\nfrom old.deep.a import taken\nfrom old.deep.b import left\n\n__all__ = ["left", "taken"]\n',
        "deep/a.py": "import atexit\n\n\ndef taken(x):\n    return x\n\n\ndef bye():\n    return 1\n\n\natexit.register(bye)\n",
        "deep/b.py": "def left(x):\n    return x\n",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text if name != "one.py" else dedented(text))
    return transplant.Package(root, lambda _path, text: text)


def dedented(text):
    """Return a text without its margin."""
    return "\n".join(line[12:] for line in text.splitlines()[1:]) + "\n"


def test_what_a_definition_uses_is_reached_and_nothing_else(package):
    reached = package.reached([("old.one", "Main")])
    assert set(reached) == {"old.one", "old.kinds", "old.tools", "old.deep", "old.deep.a"}
    assert reached["old.tools"] == {"used", "helper"}
    assert reached["old.kinds"] == {"Kind", "Other"}
    assert {"taken", "bye"} <= reached["old.deep.a"]  # its effect at import stays
    assert not {"idle", "IDLE", "Unused"} & reached["old.one"]


def test_a_module_is_cut_to_what_is_kept(package):
    reached = package.reached([("old.one", "Main")])
    text = package.cut("old.one", reached["old.one"])
    assert "# says why Main is so" in text
    assert '"""The limit."""' in text
    for gone in ("idle", "IDLE", "Never", "Unused", "two"):
        assert gone not in text
    assert "from old.kinds import Kind, Other" in text
    assert "__all__ = ['Main']" in text
    ast.parse(text)
    deep = package.cut("old.deep", reached["old.deep"])
    assert "from old.deep.a import taken" in deep
    assert "left" not in deep


def test_a_folder_that_is_only_passed_through_keeps_its_documentation(package):
    text = package.cut("old.deep", frozenset())
    assert ast.get_docstring(ast.parse(text)) == "Deep."
    assert "import" not in text


def test_names_that_are_not_there_are_refused(package):
    with pytest.raises(transplant.TransplantError, match=r"old\.one\.Nobody"):
        package.reached([("old.one", "Nobody")])
    with pytest.raises(transplant.TransplantError, match=r"old\.nowhere"):
        package.reached([("old.nowhere", "Main")])


def test_every_public_approximator_of_the_patches_can_be_reached():
    package = transplant.Package(ROOT / "shapiq_oddshap", upstream.amended)
    reached = package.reached((home, name) for name, home in upstream.EXPORTS.items())
    for module, names in reached.items():
        text = package.cut(module, names)
        defined = {name for node in ast.parse(text).body for name in transplant.bound_names(node)}
        assert names & defined or not names
    assert "shapiq_oddshap.evaluated_game" not in reached
    assert "shapiq_oddshap" not in reached
