"""Move definitions of a package into another one, with all that they need and nothing else.

What is needed follows from the source: from the definitions asked for, through the names that they
use, over the modules that these names come from. So a module may grow, split or move without a
word here. Texts keep their comments; what is not reached is cut out.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

__all__ = ["Package", "TransplantError", "bound_names"]

_TYPE_EXPRESSION = re.compile(r"[A-Za-z_][\w.\[\], |\"]*")


class TransplantError(RuntimeError):
    """What is asked for is not there, or cannot be moved."""


@dataclass(frozen=True)
class _Statement:
    """A statement at the top of a module."""

    node: ast.stmt
    names: frozenset[str]
    """What it binds; nothing of statements that are there for their effect."""
    header: int
    """The line of the ``if TYPE_CHECKING`` that it stands under, zero if it does not."""


@dataclass(frozen=True)
class _Module:
    """A module's statements, by what they bind."""

    name: str
    text: str
    statements: list[_Statement] = field(default_factory=list)
    bound: dict[str, list[_Statement]] = field(default_factory=lambda: defaultdict(list))
    imported: dict[str, tuple[str, str]] = field(default_factory=dict)
    """By name, the module and the name there, of what comes from the package itself."""


class Package:
    """The source of a package, and which definition uses which."""

    def __init__(self, root: Path, amended: Callable[[str, str], str]) -> None:
        """Read all modules.

        Args:
            root: The folder of the package; its name is the package's.
            amended: Takes a module's path below the root and its text, and returns the text to use.
        """
        self.name = root.name
        self._texts = {
            ".".join([root.name, *_parts(path.relative_to(root))]): amended(
                path.relative_to(root).as_posix(), path.read_text("utf-8")
            )
            for path in sorted(root.rglob("*.py"))
        }
        self._packages = {
            ".".join([root.name, *_parts(path.relative_to(root))])
            for path in root.rglob("__init__.py")
        }
        self._modules: dict[str, _Module] = {}

    def is_package(self, module: str) -> bool:
        """Tell whether a module is a folder."""
        return module in self._packages

    def reached(self, roots: Iterable[tuple[str, str]]) -> dict[str, frozenset[str]]:
        """Return what the roots use, themselves included: names by module.

        Args:
            roots: Definitions as pairs of a module and a name.

        Raises:
            TransplantError: If there is no such module or name.
        """
        found: dict[str, set[str]] = {}
        todo = list(roots)
        while todo:
            module, name = todo.pop()
            if name in found.get(module, set()):
                continue
            here = self._module(module)
            if module not in found:
                found[module] = set()
                effects = [each for each in here.statements if not each.names]
                for statement in effects:
                    todo += self._uses(here, statement)
            if name not in here.bound and name not in here.imported:
                msg = f"Received {module}.{name}, but {module} has no such name."
                raise TransplantError(msg)
            found[module].add(name)
            if name in here.imported and ".".join(here.imported[name]) not in self._texts:
                todo.append(here.imported[name])
            for statement in here.bound[name]:
                todo += self._uses(here, statement)
        return {module: frozenset(names) for module, names in found.items()}

    def cut(self, module: str, names: frozenset[str]) -> str:
        """Return a module's text with these definitions and imports, and its own documentation.

        Args:
            module: The module.
            names: What to keep.
        """
        here = self._module(module)
        lines = here.text.splitlines(keepends=True)
        always = {"annotations", "__all__"}  # from __future__
        if any(each.header and each.names & names for each in here.statements):
            always.add("TYPE_CHECKING")
        end = 0
        for index, statement in enumerate(here.statements):
            node = statement.node
            last = node.end_lineno or node.lineno
            after = here.statements[index + 1 : index + 2]
            if after and _is_string(after[0].node):  # what is said of a constant goes with it
                last = after[0].node.end_lineno or last
            kept = statement.names & (names | always)
            if statement.names and not kept:
                start = max(end, statement.header)  # with the comments above it
                lines[start:last] = [""] * (last - start)
            elif isinstance(node, ast.Import | ast.ImportFrom) and kept != statement.names:
                lines[node.lineno - 1 : last] = [_importing(node, kept)] + [""] * (
                    last - node.lineno
                )
            end = max(end, last)
        return _with_all(_without_empty_guards("".join(lines)), names)

    def _module(self, name: str) -> _Module:
        """Return a module, parsed once."""
        if name not in self._modules:
            if name not in self._texts:
                msg = f"Received the module {name}, but {self.name} has none of this name."
                raise TransplantError(msg)
            self._modules[name] = self._parsed(name)
        return self._modules[name]

    def _parsed(self, name: str) -> _Module:
        """Parse a module."""
        module = _Module(name, self._texts[name])
        for node, header in _top_level(ast.parse(module.text).body):
            statement = _Statement(node, frozenset(bound_names(node)), header)
            module.statements.append(statement)
            for bound in statement.names:
                module.bound[bound].append(statement)
        for each in ast.walk(ast.parse(module.text)):  # imports within functions among them
            if isinstance(each, ast.ImportFrom) and _is_of(each.module, self.name):
                for alias in each.names:
                    module.imported[alias.asname or alias.name] = (str(each.module), alias.name)
        return module

    def _uses(self, module: _Module, statement: _Statement) -> Iterator[tuple[str, str]]:
        """Yield what a statement uses of the package."""
        for name, attribute in _loads(statement.node):
            if name not in module.imported:
                if name in module.bound:
                    yield module.name, name
                continue
            yield module.name, name
            submodule = ".".join(module.imported[name])
            if submodule not in self._texts:
                continue
            if attribute is not None:
                yield submodule, attribute
            else:
                msg = (
                    f"{module.name} hands on the module {submodule}, whose use cannot be followed."
                )
                raise TransplantError(msg)


def _parts(path: Path) -> tuple[str, ...]:
    """Return the names in a module's dotted path below the package."""
    parts = path.with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


def _is_of(module: str | None, package: str) -> bool:
    return module is not None and (module == package or module.startswith(f"{package}."))


def _is_type_checking(node: ast.stmt) -> bool:
    return ast.unparse(node).startswith("if TYPE_CHECKING:")


def _is_string(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _top_level(body: list[ast.stmt]) -> Iterator[tuple[ast.stmt, int]]:
    """Yield a module's statements, those for type checkers with the line of their condition."""
    for node in body:
        if isinstance(node, ast.If) and _is_type_checking(node):
            for inner in node.body:
                yield inner, node.lineno
        else:
            yield node, 0


def bound_names(node: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement binds."""
    match node:
        case ast.FunctionDef() | ast.ClassDef() | ast.AsyncFunctionDef():
            yield node.name
        case ast.Assign():
            for target in node.targets:
                yield from (each.id for each in ast.walk(target) if isinstance(each, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name
        case ast.Import() | ast.ImportFrom():
            yield from (alias.asname or alias.name.split(".")[0] for alias in node.names)


def _loads(node: ast.AST) -> Iterator[tuple[str, str | None]]:
    """Yield the names in a statement, with the attribute that is taken of each."""
    taken = set()
    for each in ast.walk(node):
        if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name):
            taken.add(each.value)
            yield each.value.id, each.attr
        elif isinstance(each, ast.Name) and each not in taken:
            yield each.id, None
        elif (
            isinstance(each, ast.Constant)
            and isinstance(each.value, str)
            and _TYPE_EXPRESSION.fullmatch(each.value)
        ):  # annotations may be strings; more than these does no harm
            yield from ((name, None) for name in re.findall(r"(?<!\.)\b[A-Z]\w*", each.value))


def _importing(node: ast.Import | ast.ImportFrom, names: frozenset[str]) -> str:
    """Return an import of these names alone, in the place of the statement."""
    aliases = [alias for alias in node.names if (alias.asname or alias.name.split(".")[0]) in names]
    module = node.module if isinstance(node, ast.ImportFrom) else None
    only = ast.Import(aliases) if module is None else ast.ImportFrom(module, aliases, 0)
    return f"{' ' * node.col_offset}{ast.unparse(only)}\n"


def _without_empty_guards(text: str) -> str:
    """Return a text without an ``if TYPE_CHECKING`` that nothing is left of."""
    return re.sub(r"^if TYPE_CHECKING:\n(?=\s*(?:^\S|\Z))", "", text, flags=re.MULTILINE)


def _with_all(text: str, names: frozenset[str]) -> str:
    """Return a text whose ``__all__`` lists what is left."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and "__all__" in set(bound_names(node)):
            listed = [name for name in ast.literal_eval(node.value) if name in names]
            segment = ast.get_source_segment(text, node) or ""
            return text.replace(segment, f"__all__ = {listed}" if listed else "__all__ = []")
    return text
