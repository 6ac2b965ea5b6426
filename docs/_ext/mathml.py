"""Formulas as MathML, which browsers draw themselves: pages need neither scripts nor the network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from docutils import nodes
from latex2mathml.converter import convert

if TYPE_CHECKING:
    from docutils.nodes import Element
    from sphinx.application import Sphinx
    from sphinx.writers.html5 import HTML5Translator


def _inline(translator: HTML5Translator, node: Element) -> None:
    translator.body.append(convert(node.astext()))
    raise nodes.SkipNode


def _block(translator: HTML5Translator, node: Element) -> None:
    # a label ends in the number that the text and the docstrings cite
    label = (node.get("label") or "").rpartition("-")[2]
    number = f"<span class='eqno'>({label})</span>" if label else ""
    ids = f" id='{node['ids'][0]}'" if node["ids"] else ""
    formula = f"<div class='formula'>{convert(node.astext(), display='block')}</div>"
    translator.body.append(f"<div class='math'{ids}>{formula}{number}</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer under the name ``mathml``."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
