"""Lay parts of shapiq_oddshap into a checkout of shapiq, a commit each, in the order to take them.

    python tools/upstream.py PATH-TO-SHAPIQ-CHECKOUT

``docs/upstream.md`` says what each patch is for. The modules are this package's own: cut down to
what a patch needs, with imports, references and options as shapiq has them. Tests and examples for
shapiq lie in ``tools/shapiq_files``. Ruff sorts and formats by the checkout's own configuration.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from checkout import APPROXIMATOR, LAID, TESTS, Checkout, Pair, UpstreamError
from transplant import Package, TransplantError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["PATCHES", "lay", "main"]

ROOT = Path(__file__).resolve().parents[1]
FILES = Path(__file__).resolve().with_name("shapiq_files")
ODD = "shapiq.approximator.odd"

EXPORTS = {
    "FFDRD": "shapiq_oddshap.approximators.ffd",
    "FFDRDCorrected": "shapiq_oddshap.approximators.ffd",
    "OddGP": "shapiq_oddshap.approximators.oddgp",
    "PairedCoalitionSampler": "shapiq_oddshap.sampling",
}
"""What patches hand on, and where it is here; all else follows from what these use."""

RENAMED = {"shapiq_adapter": "adapter", "parts": "kernel_parts"}
"""Modules whose names say nothing in shapiq, or that its ``.gitignore`` would hide."""

HOMES = {"InteractionValues": "shapiq.interaction_values", "Game": "shapiq.game"}
"""Where shapiq defines what we import from its top level, which imports the approximators itself."""


# --- the package's modules, as shapiq wants them -------------------------------------------------

SOURCE_EDITS: dict[str, list[Pair]] = {
    "approximators/base.py": [
        (
            "        **options: Any,  # noqa: ANN401 - refused\n    ) -> InteractionValues:",
            "        **kwargs: Any,\n    ) -> InteractionValues:",
        ),
        (
            "            **options: None; shapiq's approximators take any here and ignore them.\n",
            "            **kwargs: Additional keyword arguments kept for API compatibility.\n",
        ),
        ('        refuse_options(options, {}, "approximate")\n', "        del kwargs\n"),
        (
            (
                "            TypeError: If the budget is no integer, the game returns no real numbers, or there are\n"
                "                options.\n"
            ),
            "            TypeError: If the budget is no integer, or the game returns no real numbers.\n",
        ),
    ],
    "approximators/oddgp.py": [
        ("        trees.import_lightgbm()  # refuses before anything is paid for\n", ""),
    ],
    "proxy.py": [
        (
            "            return trees.fit_proxy(coalitions, values, self.params, seed, binned)\n",
            (
                "            try:\n"
                "                trees.import_lightgbm()\n"
                "            except ImportError:\n"
                "                warnings.warn(_NO_LIGHTGBM, stacklevel=2)\n"
                "                tree = DecisionTreeRegressor(max_depth=10)\n"
                "                return trees.fit_model(coalitions, values, tree, None, seed)\n"
                "            return trees.fit_proxy(coalitions, values, self.params, seed, binned)\n"
            ),
        ),
        (
            "import numpy as np\n",
            "import warnings\n\nimport numpy as np\nfrom sklearn.tree import DecisionTreeRegressor\n",
        ),
        (
            "\n\n@dataclass(frozen=True)\nclass TreeProxy:",
            (
                "\n_NO_LIGHTGBM = (\n"
                '    "LightGBM is not installed. A DecisionTreeRegressor takes its place as the surrogate. For "\n'
                "    \"best results install LightGBM: pip install 'shapiq[proxy]'.\"\n"
                ")\n\n\n@dataclass(frozen=True)\nclass TreeProxy:"
            ),
        ),
    ],
}
"""What differs in shapiq: options that are ignored, and a tree where LightGBM is missing."""

DOCSTRINGS = {
    "shapiq_adapter.py": "What the approximators of this folder share with shapiq's base classes.",
}
"""Modules that say of themselves what does not hold in shapiq."""


def module_name(module: str) -> str:
    """Return a module's name in shapiq.

    Examples:
        >>> module_name("shapiq_oddshap.approximators.ffd"), module_name("shapiq_oddshap.gp.fit")
        ('shapiq.approximator.odd.ffd', 'shapiq.approximator.odd.gp.fit')
    """
    below = module.removeprefix("shapiq_oddshap").removeprefix(".approximators").split(".")
    return ".".join([ODD, *(RENAMED.get(part, part) for part in below if part)])


def amended(path: str, text: str) -> str:
    """Return a module's text with what differs in shapiq.

    Args:
        path: Its place in this package.
        text: The text.

    Raises:
        UpstreamError: If a passage that has to change is not there.
    """
    for old, new in SOURCE_EDITS.get(path, []):
        if text.count(old) != 1:
            msg = (
                f"shapiq_oddshap/{path} does not hold this passage exactly once:\n{old}\n"
                "Please adapt SOURCE_EDITS in tools/upstream.py."
            )
            raise UpstreamError(msg)
        text = text.replace(old, new)
    return text


def rewritten(text: str, path: str, cited: str) -> str:
    """Return a module's text in shapiq's terms.

    Args:
        text: The text, cut down.
        path: Its place in this package.
        cited: The key of OddSHAP's paper in shapiq's bibliography.

    Raises:
        UpstreamError: If a passage that has to change is not there.
    """
    if path in DOCSTRINGS:
        text = re.sub(r'\A""".*?"""', f'"""{DOCSTRINGS[path]}"""', text, count=1, flags=re.DOTALL)
    text = _without_foreign_examples(text)
    text = re.sub(r"^( *)from shapiq import (.*)$", _at_home, text, flags=re.MULTILINE)
    text = re.sub(
        r"^( *from )(shapiq_oddshap[\w.]*)( import )",
        lambda match: match[1] + module_name(match[2]) + match[3],
        text,
        flags=re.MULTILINE,
    )
    text = re.sub(r"shapiq_oddshap\.(?=[A-Z])", "shapiq.approximator.", text)
    # comments to checkers that shapiq does not run, or not with this rule
    text = re.sub(r" *# (?:type: ignore\[[\w-]+\]|noqa: PLC0415).*", "", text)
    text = re.sub(r"\bthe paper's\b(?= Algorithm)", f":cite:t:`{cited}`'s", text)
    text = re.sub(r"\(paper,(?=\s)", f"(:cite:t:`{cited}`,", text)
    text = text.replace("Zhou, Mee, Hamers and Zheng (2025)", ":cite:t:`Zhou.2025`")
    site = "https://shapiq-oddshap.readthedocs.io/en/latest"
    text = re.sub(r"``docs/([\w-]+)\.md``", rf"`its derivation <{site}/\1.html>`__", text)
    if "shapiq_oddshap" in text:
        line = next(line for line in text.splitlines() if "shapiq_oddshap" in line)
        msg = f"shapiq_oddshap/{path} still names the package: {line.strip()!r}. Please reword it."
        raise UpstreamError(msg)
    return text


def _at_home(match: re.Match[str]) -> str:
    """Return imports from shapiq's top level, from where the names are defined."""
    unknown = set(match[2].split(", ")) - HOMES.keys()
    if unknown:
        msg = f"Modules import {unknown} from shapiq. Please add their homes in tools/upstream.py."
        raise UpstreamError(msg)
    return "\n".join(
        f"{match[1]}from {HOMES[name]} import {name}" for name in match[2].split(", ")
    ).lstrip("\n")


def _without_foreign_examples(text: str) -> str:
    """Drop examples and references that need what shapiq will not have."""

    def example(match: re.Match[str]) -> str:
        names = re.findall(r"from shapiq_oddshap import (.*)", match[0])
        wanted = {name.strip() for line in names for name in line.split(",")}
        foreign = wanted - EXPORTS.keys() or re.search(
            r"import .*shapiq_oddshap$", match[0], re.MULTILINE
        )
        return (
            "\n"
            if foreign
            else match[0].replace("shapiq_oddshap import", "shapiq.approximator import")
        )

    def reference(match: re.Match[str]) -> str:
        return match[0] if match[1] in {*EXPORTS, "OddSHAP"} else ""

    section = r"\n *\n( +)Examples:\n(?:(?:\1 +.*| *)\n)*?(?=\1\"\"\"|\1\w| *\n\1\w)"
    text = re.sub(section, example, text)
    entry = r"\n +- :class:`~shapiq_oddshap\.(\w+)`(?:(?! +- |\n| *\"\"\").*\n?)*?(?=\n)"
    return re.sub(entry, reference, text)


# --- what patches share --------------------------------------------------------------------------


def exported(checkout: Checkout) -> list[str]:
    """Return what earlier patches have laid."""
    path = f"{LAID}/__init__.py"
    if not checkout.has(path):
        return []
    for node in ast.parse(checkout.read(path)).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return []


def lay(checkout: Checkout, names: list[str]) -> None:
    """Lay the definitions of these names into the checkout, and all that they use.

    Args:
        checkout: The checkout; what it holds of earlier patches stays.
        names: Keys of ``EXPORTS``.

    Raises:
        UpstreamError: If a passage that has to change is not there.
    """
    package = Package(ROOT / "shapiq_oddshap", amended)
    every = sorted({*exported(checkout), *names})
    cited = re.findall(
        r"Fumagalli\.2026\w*", checkout.read(f"{APPROXIMATOR}/regression/oddshap.py")
    )
    if not cited:
        msg = "shapiq's OddSHAP does not cite its paper any more. Please adapt tools/upstream.py."
        raise UpstreamError(msg)
    reached = dict(package.reached((EXPORTS[name], name) for name in every))
    for module in list(reached):
        for parent in _folders(module):
            reached.setdefault(parent, frozenset())
    targets = [module_name(module) for module in reached]
    if clash := {target for target in targets if targets.count(target) > 1}:
        msg = f"Several modules would become {clash}. Please rename one in tools/upstream.py."
        raise UpstreamError(msg)
    for module, kept in sorted(reached.items()):
        inner = "/__init__" if package.is_package(module) else ""
        source = f"{module.replace('.', '/')}{inner}.py".removeprefix("shapiq_oddshap/")
        target = f"src/{module_name(module).replace('.', '/')}{inner}.py"
        checkout.write(target, rewritten(package.cut(module, kept), source, cited[0]))
    homes = {name: module_name(EXPORTS[name]) for name in every}
    imports = "".join(f"from {home} import {name}\n" for name, home in homes.items())
    about = '"""Approximators that look at the odd component of a game, which Shapley values depend on."""'
    checkout.write(f"{LAID}/__init__.py", f"{about}\n\n{imports}\n__all__ = {every}\n")


def _folders(module: str) -> list[str]:
    """Return the folders that a module lies in, below those that are laid flat."""
    parts = module.split(".")
    above = [".".join(parts[:end]) for end in range(2, len(parts))]
    return [folder for folder in above if folder != "shapiq_oddshap.approximators"]


def hand_on(checkout: Checkout, names: list[str], approximators: list[str]) -> None:
    """Export names from ``shapiq.approximator``, and approximators from shapiq itself."""
    path = f"{APPROXIMATOR}/__init__.py"
    text = re.sub(
        r"^from \.odd import (\([^)]*\)|.*)\n", "", checkout.read(path), flags=re.MULTILINE
    )
    line = f"from .odd import {', '.join(exported(checkout))}\n"
    checkout.write(path, text)
    checkout.edit(path, ("from .permutation.sii", f"{line}from .permutation.sii"))
    _listed(checkout, path, r"SV_APPROXIMATORS[^=]*= \[\n", approximators)
    _listed(checkout, path, r"__all__ = \[\n", [f'"{name}"' for name in names])
    top = "src/shapiq/__init__.py"
    _listed(checkout, top, r"from \.approximator import \(\n", approximators)
    checkout.edit(
        top,
        ('    "OddSHAP",\n', "".join(f'    "{name}",\n' for name in ["OddSHAP", *approximators])),
    )


def _listed(checkout: Checkout, path: str, opening: str, entries: list[str]) -> None:
    """Add entries after OddSHAP in a list of one entry a line."""
    added = "".join(f"    {entry},\n" for entry in entries)
    pattern = rf'({opening}(?:    .*\n)*?    "?OddSHAP"?,\n)'
    checkout.substitute(path, pattern, lambda match: match[1] + added)


def name_in_explainers(checkout: Checkout, name: str, indices: dict[str, str]) -> None:
    """Let explainers take an approximator by name.

    Args:
        checkout: The checkout.
        name: The name.
        indices: The approximator's class by index.
    """
    configuration = "src/shapiq/explainer/configuration.py"
    entries = "".join(f'        "{index}": {cls},\n' for index, cls in indices.items())
    checkout.edit(
        configuration,
        (
            '    "spex": {\n        "SII": SPEX',
            f'    "{name}": {{\n{entries}    }},\n    "spex": {{\n        "SII": SPEX',
        ),
    )
    imported = "".join(f"    {cls},\n" for cls in sorted(set(indices.values())))
    checkout.edit(configuration, ("from shapiq import (\n", f"from shapiq import (\n{imported}"))
    literal = r'(Literal\[(?:\s*"[\w-]+",?)*?\s*"proxyspex"(?:,\s*"[\w-]+")*)(,?\s*\])'
    listed = r'("proxyspex"(?:, "[\w-]+")*)(\]``)'
    for explainer in ("configuration", "tabular", "tabpfn"):
        path = f"src/shapiq/explainer/{explainer}.py"
        checkout.substitute(path, literal, rf'\1, "{name}"\2')
        if explainer != "configuration":
            checkout.substitute(path, listed, rf'\1, "{name}"\2')
    agnostic = "src/shapiq/explainer/agnostic.py"
    checkout.edit(agnostic, ("Other options include ", f'Other options include "{name}", '))


def add_file(checkout: Checkout, source: str, target: str) -> None:
    """Add a file of ``tools/shapiq_files``."""
    checkout.write(target, (FILES / source).read_text("utf-8"))


def add_test(checkout: Checkout, name: str) -> None:
    """Add a test module of the approximators."""
    add_file(checkout, f"{name}.py", f"{TESTS}/tests_approximators/{name}.py")


def change_log(checkout: Checkout, line: str) -> None:
    """Add a line to the changelog, in a section of what is not released yet."""
    text = checkout.read("CHANGELOG.md")
    heading = "## Unreleased\n"
    if heading not in text:
        text = text.replace("# Changelog\n", f"# Changelog\n\n{heading}", 1)
    if heading not in text:
        msg = "CHANGELOG.md does not begin with '# Changelog'. Please adapt tools/upstream.py."
        raise UpstreamError(msg)
    # below the lines of earlier patches
    section = re.compile(rf"({heading}\n?(?:- .*\n)*)\n*")
    checkout.write(
        "CHANGELOG.md", section.sub(lambda match: f"{match[1].rstrip()}\n{line}\n\n", text, 1)
    )


def add_reference(checkout: Checkout, key: str) -> None:
    """Add an entry to the bibliography, if the checkout has one and not this."""
    path = "docs/source/references.bib"
    if checkout.has("docs") and key not in checkout.read(path):
        checkout.write(
            path, f"{checkout.read(path).rstrip()}\n{(FILES / f'{key}.bib').read_text('utf-8')}"
        )


def edit_test(checkout: Checkout, path: str, *ways: Pair) -> None:
    """Edit one of shapiq's own tests, if they are there."""
    if checkout.tested:
        checkout.edit(f"{TESTS}/{path}", *ways)


# --- the patches, in the order in which they could be taken ---------------------------------------


def mends(checkout: Checkout) -> None:
    """Mend what is small in shapiq's own OddSHAP."""
    path = f"{APPROXIMATOR}/regression/oddshap.py"

    def edit(*ways: Pair) -> None:
        checkout.edit(path, *ways)

    edit(
        (
            "            n_candidate_terms = max(0, math.ceil(budget / self.interaction_factor))\n",
            (
                "            # all individuals stay: one without a term would get a Shapley value of 0\n"
                "            n_candidate_terms = max(self.n, math.ceil(budget / self.interaction_factor))\n"
            ),
        )
    )
    edit(
        (
            (
                "screened first, and only the remaining candidate\n"
                "        budget is spent on higher-order odd interactions. Unlike the paper, low\n"
                "        budgets can therefore leave some individuals out of the active support\n"
                "        entirely (their Shapley value is then estimated as exactly 0).\n"
            ),
            (
                "screened first, and only the remaining candidate\n"
                "        budget is spent on higher-order odd interactions. Individuals are never left\n"
                "        out of the active support, also where the candidate budget is below ``n``.\n"
            ),
        )
    )
    edit(
        (
            "            estimation_budget=budget,\n",
            "            estimation_budget=min(budget, 2**self.n),\n",
        )
    )
    edit(
        (
            "        self._sampler.sample(budget)\n",
            (
                "        # the same instance gives the same answer, however often it is asked\n"
                "        self._sampler.set_random_state(self._random_state)\n"
                "        self._sampler.sample(budget)\n"
            ),
        )
    )
    edit(
        (
            (
                "        if n <= 1:\n"
                '            msg = "OddSHAP sampling weights are undefined for n <= 1."\n'
                "            raise ValueError(msg)\n"
            ),
            (
                "        if n < 1:\n"
                '            msg = "OddSHAP sampling weights are undefined for n < 1."\n'
                "            raise ValueError(msg)\n"
                "        if n == 1:  # there are no inner sizes, and the two boundary coalitions come anyway\n"
                "            return np.full(2, 0.5)\n"
            ),
        )
    )
    edit(
        (
            (
                "        if n <= 1:\n"
                '            msg = "OddSHAP regression weights are undefined for n <= 1."\n'
            ),
            (
                "        if n < 1:\n"
                '            msg = "OddSHAP regression weights are undefined for n < 1."\n'
            ),
        )
    )
    if "If ``n`` is smaller than ``2``" in checkout.read(path):
        edit(("If ``n`` is smaller than ``2``", "If ``n`` is smaller than ``1``"))
    _mended_tests(checkout)
    change_log(
        checkout,
        "- fixes `OddSHAP` leaving players out of its support (with a Shapley value of exactly 0) below "
        "`n * interaction_factor` evaluations, reporting an `estimation_budget` above `2**n`, giving "
        "another answer when the same seeded instance is asked again, and refusing games of one player.",
    )


def _mended_tests(checkout: Checkout) -> None:
    """Test the mends, and let tests that hold the former behaviour hold the new one."""
    tests = "tests_approximators/test_approximator_oddshap.py"
    edit_test(
        checkout,
        tests,
        (
            '    should be called with the paper\'s candidate count `ceil(budget / interaction_factor)`.\n    """\n    n = 8',
            '    should be called with room for all individuals.\n    """\n    n = 8',
        ),
    )
    edit_test(
        checkout,
        tests,
        (
            (
                "    approx.approximate(budget, additive_game)\n\n"
                '    assert captured["n_candidate_terms"] == math.ceil(budget / approx.interaction_factor)\n\n\n'
                "def test_candidate_interaction_count_matches_paper"
            ),
            (
                "    approx.approximate(budget, additive_game)\n\n"
                '    assert captured["n_candidate_terms"] == n\n\n\n'
                "def test_candidate_interaction_count_matches_paper"
            ),
        ),
    )
    if checkout.tested:
        path = f"{TESTS}/{tests}"
        checkout.substitute(path, r"\[0, 1\](\)\ndef test_\w+_reject_degenerate_n)", r"[0, -1]\1")
        checkout.substitute(path, "undefined for n <= 1", "undefined for n < 1")
    add_test(checkout, "test_approximator_oddshap_small_budgets")


def names(checkout: Checkout) -> None:
    """Let explainers take OddSHAP by name, and by themselves."""
    name_in_explainers(checkout, "oddshap", {"SV": "OddSHAP"})
    configuration = "src/shapiq/explainer/configuration.py"
    checkout.edit(
        configuration,
        (
            "        return KernelSHAP(n=n_players, random_state=random_state)\n",
            (
                "        if _lightgbm_available():\n"
                "            return OddSHAP(n=n_players, random_state=random_state)\n"
                "        return KernelSHAP(n=n_players, random_state=random_state)\n"
            ),
        ),
    )
    checkout.edit(
        configuration,
        (
            "def choose_spex(",
            (
                "def _lightgbm_available() -> bool:\n"
                '    """Return whether LightGBM, the surrogate of ``OddSHAP``, is installed."""\n'
                '    return find_spec("lightgbm") is not None\n\n\n'
                "def choose_spex("
            ),
        ),
    )
    checkout.edit(
        configuration,
        ("import warnings\n", "import warnings\nfrom importlib.util import find_spec\n"),
    )
    selects = (
        r"which automatically selects: :class:`~shapiq\.approximator\.KernelSHAP` for ``\"SV\"``,"
    )
    chosen = (
        'which automatically selects: :class:`~shapiq.approximator.OddSHAP` for ``"SV"``\n'
        "                (:class:`~shapiq.approximator.KernelSHAP` where LightGBM is not installed),"
    )
    for explainer in ("tabular", "tabpfn"):
        checkout.substitute(f"src/shapiq/explainer/{explainer}.py", selects, chosen)
    automatic = "tests_explainer/test_configuration.py"
    if checkout.tested:
        path = f"{TESTS}/{automatic}"
        checkout.edit(
            path,
            (
                "            # SV correctly uses KernelSHAP\n",
                "            # SV correctly uses OddSHAP\n",
            ),
        )
        checkout.substitute(path, r'(\("[\w-]+", [12], \d+), KernelSHAP\)', r"\1, _SV_DEFAULT)")
        checkout.edit(
            path,
            (
                "\n\nclass TestAutomaticSelection:",
                (
                    '\n_SV_DEFAULT = OddSHAP if is_installed("lightgbm") else KernelSHAP\n\n\n'
                    "class TestAutomaticSelection:"
                ),
            ),
        )
        checkout.edit(path, ("    KernelSHAPIQ,\n", "    KernelSHAPIQ,\n    OddSHAP,\n"))
        checkout.edit(
            path,
            (
                "import ValidApproximatorTypes\n",
                "import ValidApproximatorTypes\nfrom tests.shapiq.markers import is_installed\n",
            ),
        )
    edit_test(
        checkout,
        "tests_explainer/test_explainer_tabular.py",
        (
            '    assert explainer.approximator.__class__.__name__ == "KernelSHAP"\n',
            (
                '    default = "OddSHAP" if is_installed("lightgbm") else "KernelSHAP"\n'
                "    assert explainer.approximator.__class__.__name__ == default\n"
            ),
        ),
    )
    edit_test(
        checkout,
        "tests_explainer/test_explainer_tabular.py",
        (
            "from tests.shapiq.utils import",
            "from tests.shapiq.markers import is_installed\nfrom tests.shapiq.utils import",
        ),
    )
    add_file(
        checkout,
        "test_explainer_oddshap_by_name.py",
        f"{TESTS}/tests_explainer/test_explainer_oddshap_by_name.py",
    )
    change_log(
        checkout,
        '- adds `"oddshap"` as an approximator of the explainers, which `"auto"` now takes for Shapley '
        "values where LightGBM is installed (`KernelSHAP` elsewhere, as before).",
    )


def ffd(checkout: Checkout) -> None:
    """Add FFD-RD, exact up to interactions of order four for a fixed number of evaluations."""
    added = ["FFDRD", "FFDRDCorrected"]
    _allow_mathematics(checkout)
    lay(checkout, added)
    hand_on(checkout, added, added)
    # no name in the explainers, where every name takes any budget
    add_reference(checkout, "Zhou.2025")
    add_test(checkout, "test_approximator_ffdrd")
    add_file(checkout, "plot_ffdrd.py", "examples/approximators/plot_ffdrd.py")
    change_log(
        checkout,
        "- adds `FFDRD` and `FFDRDCorrected` in `shapiq.approximator.odd`: Shapley values from fractional "
        "factorial designs, exact up to interactions of order four (Zhou et al., 2025).",
    )


def oddgp(checkout: Checkout) -> None:
    """Add OddGP, whose Shapley values come with variances."""
    _allow_mathematics(checkout)
    lay(checkout, ["OddGP"])
    hand_on(checkout, ["OddGP"], ["OddGP"])
    name_in_explainers(checkout, "oddgp", dict.fromkeys(["SV", "SII", "k-SII"], "OddGP"))
    add_test(checkout, "test_approximator_oddgp")
    add_file(checkout, "plot_oddgp.py", "examples/approximators/plot_oddgp.py")
    change_log(
        checkout,
        "- adds `OddGP` in `shapiq.approximator.odd`: a Gaussian process on the odd component of a game, "
        "which estimates Shapley values, interactions of two and three players and the variances of all "
        "(`approximate_with_variance`).",
    )


def sampler(checkout: Checkout) -> None:
    """Offer the sampler of pairs without replacement, and let OddSHAP take one."""
    _allow_mathematics(checkout)
    lay(checkout, ["PairedCoalitionSampler"])
    hand_on(checkout, ["PairedCoalitionSampler"], [])
    path = f"{APPROXIMATOR}/regression/oddshap.py"
    checkout.edit(
        path,
        (
            "        sampling_weights: np.ndarray | None = None,\n        random_state",
            (
                "        sampling_weights: np.ndarray | None = None,\n"
                "        sampler: CoalitionSampler | None = None,\n        random_state"
            ),
        ),
    )
    checkout.edit(
        path,
        (
            "        if interaction_factor < 1:\n",
            (
                "        if sampler is not None and sampler.n != n:\n"
                '            msg = f"Received a sampler of {sampler.n} players, but one of {n} is required."\n'
                "            raise ValueError(msg)\n"
                "        self._sampler = self._sampler if sampler is None else sampler\n\n"
                "        if interaction_factor < 1:\n"
            ),
        ),
    )
    drawn_by = (
        "draws the coalitions in the place of shapiq's, e.g. a\n"
        "{0}:class:`~shapiq.approximator.PairedCoalitionSampler`; it is seeded by ``random_state``.\n"
    )
    argument = "            random_state: The random state of the sampler and the surrogate."
    prose = "        (the paper's configuration) unless overridden.\n"
    checkout.edit(
        path,
        (argument, f"            sampler: What {drawn_by.format(' ' * 16)}{argument}"),
        (prose, f"{prose[:-1]} A ``sampler`` {drawn_by.format(' ' * 8)}"),
    )
    checkout.edit(
        path,
        (
            "    from shapiq.game import Game\n",
            (
                "    from shapiq.approximator.sampling import CoalitionSampler\n"
                "    from shapiq.game import Game\n"
            ),
        ),
    )
    add_test(checkout, "test_sampling_paired")
    add_file(checkout, "plot_paired_sampler.py", "examples/approximators/plot_paired_sampler.py")
    change_log(
        checkout,
        "- adds `PairedCoalitionSampler` in `shapiq.approximator.odd`: complementary pairs without "
        "replacement, nested over budgets, for `OddSHAP(sampler=...)` and others.",
    )


def _allow_mathematics(checkout: Checkout) -> None:
    """Let the new modules write mathematical signs, as ShaplEIG's do."""
    if f"{LAID}/" in checkout.read("pyproject.toml"):
        return
    table = "[tool.ruff.lint.per-file-ignores]\n"
    entry = (
        f'{table}"{APPROXIMATOR}/odd/**/*.py" = [\n'
        '    "RUF001", "RUF002", "RUF003",  # mathematical notation in docstrings and comments\n]\n'
    )
    checkout.edit("pyproject.toml", (table, entry))


@dataclass(frozen=True)
class Patch:
    """A commit: what it does and what to say of it."""

    title: str
    apply: Callable[[Checkout], None]


PATCHES = {
    "mends": Patch("Keep all players in OddSHAP's support, and mend three small things", mends),
    "names": Patch('Take OddSHAP by name and by "auto" in the explainers', names),
    "ffd": Patch("Add FFD-RD: exact up to interactions of order four", ffd),
    "oddgp": Patch("Add OddGP: Shapley values with variances from an odd Gaussian process", oddgp),
    "sampler": Patch("Add a sampler of pairs without replacement, nested over budgets", sampler),
}


def main(arguments: list[str] | None = None) -> int:
    """Lay the chosen patches; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=Path, help="folder of a shapiq checkout, 1.6 or later")
    parser.add_argument(
        *("--only", "-o"),
        nargs="+",
        choices=PATCHES,
        metavar="PATCH",
        help=f"patches to lay, of {', '.join(PATCHES)} (default: all, in this order)",
    )
    parser.add_argument("--branch", default="odd", help="branch to commit to (default: odd)")
    parser.add_argument("--no-commit", action="store_true", help="only change the files")
    parser.add_argument("--diffs", type=Path, help="folder to write each patch to, as a diff")
    options = parser.parse_args(arguments)
    try:
        checkout = Checkout(options.checkout.resolve())
        commits = checkout.is_repository and not options.no_commit
        if commits:
            checkout.branch(options.branch)
        for number, (name, patch) in enumerate(PATCHES.items(), start=1):
            if options.only is None or name in options.only:
                place = options.diffs and options.diffs / f"{number:04}-{name}.patch"
                _lay(checkout, name, patch, place)
                if commits:
                    checkout.commit(patch.title)
                checkout.changed.clear()
    except (UpstreamError, TransplantError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _lay(checkout: Checkout, name: str, patch: Patch, place: Path | None) -> None:
    """Lay a patch, all of it or nothing, and say what there is to say of it."""
    try:
        patch.apply(checkout)
        checkout.tidy()
        silenced = checkout.silence()
    except (UpstreamError, TransplantError):
        checkout.undo()
        raise
    print(f"{name}: {len(checkout.changed)} files, {patch.title}")
    if silenced:
        print(f"  {silenced} comments to ty")
    for finding in checkout.findings():
        print(f"  {finding}")
    if place:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"Subject: {patch.title}\n\n{checkout.diff()}", "utf-8")


if __name__ == "__main__":
    sys.exit(main())
