"""A working tree of shapiq: edits that fail loudly, its own formatter and checkers, and commits."""

from __future__ import annotations

import difflib
import re
import subprocess
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["APPROXIMATOR", "LAID", "TESTS", "Checkout", "Pair", "UpstreamError"]

APPROXIMATOR = "src/shapiq/approximator"
LAID = f"{APPROXIMATOR}/odd"
TESTS = "tests/shapiq/tests_unit"
_ROUNDS = 4
Pair = tuple[str, str]


class UpstreamError(RuntimeError):
    """A checkout is not as expected."""


class Checkout:
    """A working tree of shapiq, and what a patch changed in it."""

    def __init__(self, root: Path) -> None:
        """Look at the tree.

        Args:
            root: Its folder.

        Raises:
            UpstreamError: If it is no checkout of a shapiq with OddSHAP, or has uncommitted changes.
        """
        self.root = root
        for needed in ("pyproject.toml", f"{APPROXIMATOR}/regression/oddshap.py"):
            if not (root / needed).is_file():
                msg = f"Received {root}, but there is no {needed}: a checkout of shapiq >= 1.6 is needed."
                raise UpstreamError(msg)
        self.is_repository = (root / ".git").exists()
        if self.is_repository and (dirty := self._git("status", "--porcelain", "-uno")):
            msg = f"{root} has uncommitted changes. Please commit or stash them:\n{dirty}"
            raise UpstreamError(msg)
        self.changed: dict[str, Pair] = {}
        self.tested = self.has(TESTS)  # a source distribution has no tests
        # rules of a version of ruff that is newer than shapiq's own
        self._kinds = {line.split()[1] for line in self._found(["."])}

    def has(self, path: str) -> bool:
        """Tell whether there is such a file or folder."""
        return (self.root / path).exists()

    def read(self, path: str) -> str:
        """Return a file's text."""
        if not self.has(path):
            msg = f"{self.root} has no {path}: shapiq has moved it. Please adapt tools/upstream.py."
            raise UpstreamError(msg)
        return (self.root / path).read_text("utf-8")

    def write(self, path: str, text: str) -> None:
        """Write a file.

        Args:
            path: Its place, from the root.
            text: What it will hold.
        """
        place = self.root / path
        before = place.read_text("utf-8") if place.exists() else ""
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, "utf-8", newline="\n")
        self._record(path, before, text)

    def _record(self, path: str, before: str, after: str) -> None:
        """Keep what a file held at first and holds now."""
        first, _ = self.changed.pop(path, (before, ""))
        if first != after:
            self.changed[path] = (first, after)

    def edit(self, path: str, *ways: Pair) -> None:
        """Replace a passage that occurs once.

        Args:
            path: The file.
            ways: Passages and what takes their place; the first that is there counts.

        Raises:
            UpstreamError: If there is none of them, or it is there more than once.
        """
        text = self.read(path)
        for old, new in ways:
            if text.count(old) == 1:
                self.write(path, text.replace(old, new))
                return
        counts = {old: text.count(old) for old, _ in ways}
        msg = (
            f"{path} holds none of these passages exactly once: {counts}. shapiq has changed there: "
            "please look at the passage and adapt the edit in tools/upstream.py."
        )
        raise UpstreamError(msg)

    def substitute(
        self, path: str, pattern: str, new: str | Callable[[re.Match[str]], str]
    ) -> None:
        """Replace every match of a pattern, of which there has to be one; as :meth:`edit`."""
        text, count = re.subn(pattern, new, self.read(path))
        if count == 0:
            msg = (
                f"{path} has nothing like {pattern!r}. shapiq has changed there: please look at the "
                "file and adapt the pattern in tools/upstream.py."
            )
            raise UpstreamError(msg)
        self.write(path, text)

    def tidy(self) -> None:
        """Format as shapiq does: imports sorted, its Python's syntax, no comments to rules it lacks."""
        files = [path for path in self.changed if path.endswith(".py")]
        new = [path for path in files if not self.changed[path][0] or path.startswith(f"{LAID}/")]
        self._ruff("check", "--fix-only", "--fixable", "I001", files=files)
        # type aliases are written otherwise from Python 3.12 on, which we do not ask for
        fixed = ("--fixable", "I001,RUF100,UP040,F401", "--unsafe-fixes")
        self._ruff("check", "--fix-only", *fixed, files=new)
        self._ruff("format", files=files)
        for path in files:
            self._record(path, "", self.read(path))

    def findings(self) -> list[str]:
        """Return what ruff finds in the changed files and nowhere in shapiq as it was."""
        files = [path for path in self.changed if path.endswith(".py")]
        return [line for line in self._found(files) if line.split()[1] not in self._kinds]

    def _found(self, files: list[str]) -> list[str]:
        """Return ruff's findings, one a line, beginning with their place."""
        options = ["--output-format", "concise", "--exit-zero"]
        return self._ruff("check", *options, files=files).splitlines()

    def _ruff(self, *arguments: str, files: list[str]) -> str:
        """Run ruff on files and return what it says."""
        if not files:
            return ""
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *arguments, "--no-cache", "--quiet", "--", *files],
            cwd=self.root,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        if done.returncode:
            msg = f"ruff failed; `pip install ruff` if it is missing:\n{done.stderr}"
            raise UpstreamError(msg)
        return done.stdout

    def silence(self) -> int:
        """Tell ty, where it is installed, what it cannot know of the new modules; return how much."""
        files = [path for path in self.changed if path.startswith(f"{LAID}/")]
        if not files or find_spec("ty") is None:
            return 0
        for _ in range(_ROUNDS):  # a comment may make ruff wrap its line, and so be out of place
            findings = self._found_by_ty(files)
            if not findings:
                break
            for path, line, rule in findings:
                lines = self.read(path).splitlines(keepends=True)
                bare = lines[line - 1].split("  # ty: ignore")[0].rstrip()
                comment = "" if rule == "unused-ignore-comment" else f"  # ty: ignore[{rule}]"
                lines[line - 1] = f"{bare}{comment}\n"
                self.write(path, "".join(lines))
            self.tidy()
        return sum(self.read(path).count("# ty: ignore") for path in files)

    def _found_by_ty(self, files: list[str]) -> list[tuple[str, int, str]]:
        """Return the file, the line and the rule of what ty finds in files."""
        command = [sys.executable, "-m", "ty", "check", "--python", sys.prefix, "--exit-zero"]
        done = subprocess.run(
            [*command, "--output-format", "concise", *files],
            cwd=self.root,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        found = re.findall(r"^(.+?):(\d+):\d+: \w+\[([\w-]+)\]", done.stdout, re.MULTILINE)
        return sorted({(path, int(line), rule) for path, line, rule in found if path in files})

    def diff(self) -> str:
        """Return the changes as a unified diff."""
        lines: list[str] = []
        for path, (before, after) in sorted(self.changed.items()):
            lines += difflib.unified_diff(
                before.splitlines(keepends=True),
                after.splitlines(keepends=True),
                f"a/{path}" if before else "/dev/null",
                f"b/{path}",
            )
        return "".join(lines)

    def undo(self) -> None:
        """Give back what was there before the patch."""
        for path, (before, _) in self.changed.items():
            if before:
                (self.root / path).write_text(before, "utf-8", newline="\n")
            else:
                (self.root / path).unlink()
        self.changed.clear()

    def branch(self, name: str) -> None:
        """Start a branch."""
        self._git("switch", "--create", name)

    def commit(self, message: str) -> None:
        """Commit the changed files."""
        self._git("add", "--", *self.changed)
        self._git("commit", "--quiet", "--message", message)

    def _git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments],  # noqa: S607
            cwd=self.root,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        if done.returncode:
            msg = f"git {' '.join(arguments)} failed: {done.stderr.strip()}"
            raise UpstreamError(msg)
        return done.stdout.strip()
