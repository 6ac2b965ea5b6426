"""Configuration of the documentation, built by ``make docs``: theme and extensions as shapiq's."""

from __future__ import annotations

import os
import re
import sys
import warnings
from importlib.metadata import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from sphinx.errors import ExtensionError

import shapiq_oddshap

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).parents[1]
ABOUT = metadata("shapiq-oddshap")
SOURCE = dict(url.split(", ") for url in ABOUT.get_all("Project-URL"))["Source"]
sys.path.insert(0, str(Path(__file__).parent / "_ext"))

# what the newest of it for Python 3.11 still calls of Sphinx
warnings.filterwarnings("ignore", module=r"sphinx_autodoc_typehints\.")

project = "shapiq-oddshap"
author = "the shapiq-oddshap contributors"
project_copyright = author
version = release = ABOUT["Version"]

extensions = [
    "mathml",
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_autodoc_typehints",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "sphinxcontrib.bibtex",
]
exclude_patterns = ["auto_examples/**.ipynb", "**/sg_execution_times.rst", "sg_execution_times.rst"]
templates_path = ["_templates"]

# ------------------------------------------------------------------------------- references
# A link to a public name that leads nowhere is an error; types of inner stages and of others are none.
nitpicky = True
_public = "|".join(shapiq_oddshap.__all__)
nitpick_ignore_regex = [("py:.*", rf"(?!shapiq_oddshap\.(.*\.)?({_public})(\.|$)).*")]
bibtex_bibfiles = ["references.bib"]
bibtex_reference_style = "author_year"
# Other projects' names become links on the published site; any other build needs no network.
intersphinx_mapping = (
    {
        "python": ("https://docs.python.org/3", None),
        "numpy": ("https://numpy.org/doc/stable", None),
        "shapiq": ("https://shapiq.readthedocs.io/en/latest", None),
    }
    if os.environ.get("READTHEDOCS")
    else {}
)

# ----------------------------------------------------------------------------------- pages
myst_enable_extensions = ["amsmath", "colon_fence", "dollarmath", "substitution"]
myst_heading_anchors = 3
html_math_renderer = "mathml"  # no script, no fonts, no network
_suite = sorted((ROOT / "benchmarks" / "results" / "suite").glob("*.png"))
myst_substitutions = {
    "suite": "\n\n".join(
        f"![{figure.stem.replace('-', ' ')} over the suite of games]"
        f"(../{figure.relative_to(ROOT).as_posix()})"
        for figure in _suite
    )
}

# ------------------------------------------------------------------------------------- API
autosummary_generate = True
autodoc_default_options = {
    "members": True,
    "member-order": "groupwise",
    # what shapiq's own classes define is documented there
    "inherited-members": "Approximator,CoalitionSampler,Game,RuntimeError,ValueError,dict",
    "special-members": "__call__",
}
autoclass_content = "class"
napoleon_numpy_docstring = False
napoleon_use_ivar = True
always_document_param_types = False
typehints_defaults = "comma"

# --------------------------------------------------------------------------------- gallery
sphinx_gallery_conf = {
    "examples_dirs": [str(ROOT / "examples")],
    "gallery_dirs": ["auto_examples"],
    "backreferences_dir": "generated/backreferences",
    "doc_module": ("shapiq_oddshap",),
    "reference_url": {"shapiq_oddshap": None},
    "filename_pattern": r".*\.py",
    "within_subsection_order": "FileNameSortKey",
    "capture_repr": (),
    "download_all_examples": False,
    "show_signature": False,
    "abort_on_example_error": True,
    "min_reported_time": 1_000_000,
}

# ------------------------------------------------------------------------------------ HTML
html_theme = "furo"
html_title = "shapiq-oddshap"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
pygments_dark_style = "monokai"
html_theme_options = {
    "source_repository": SOURCE,
    "source_branch": "main",
    "source_directory": "docs/",
}
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True


def _escape_bars(_app: Sphinx, *event: object) -> None:
    """Keep |T| of docstrings from being read as a substitution; literals and code stay."""
    lines: list[str] = event[-1]  # type: ignore[assignment]
    for number, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            parts = re.split(r"(``.*?``)", line)
            parts[::2] = [part.replace("|", r"\|") for part in parts[::2]]
            lines[number] = "".join(parts)


def _link_sources(_app: Sphinx, _page: str, source: list[str]) -> None:
    """Point links to files outside of the site, which work in a checkout, at the repository."""
    outside = (
        r"(?<!!)(\[[^\]]*\])\((?:\.\./)+((?:benchmarks|examples|shapiq_oddshap|tests|tools)[^)]*)\)"
    )
    source[0] = re.sub(outside, rf"\1({SOURCE}/blob/main/\2)", source[0])


def _check_offline(app: Sphinx, error: Exception | None) -> None:
    """Refuse pages that would load scripts, styles, fonts or pictures from elsewhere."""
    if error is None and app.builder.format == "html":
        loads = re.compile(
            r"<(?:script|img|iframe)[^>]*src=\"?https?:|<link[^>]*stylesheet[^>]*https?:"
        )
        for page in Path(app.outdir).rglob("*.html"):
            if loads.search(page.read_text("utf-8")):
                msg = f"{page} needs the network."
                raise ExtensionError(msg)


def setup(app: Sphinx) -> None:
    """Connect the above."""
    app.connect("autodoc-process-docstring", _escape_bars)
    app.connect("source-read", _link_sources)
    app.connect("build-finished", _check_offline)
