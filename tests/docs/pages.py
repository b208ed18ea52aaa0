"""Runs a page of the documentation from top to bottom, as a reader would.

The word behind the fence of a block says what becomes of it:

- `python`: it is run; names last to the end of the page. What it prints must stand in a `text` block right
  below it.
- `python title="name.py"`: it is put in a file of that name, for `console` blocks to run.
- `console`: the lines that begin with `$ ` are run in a directory of the page's own; the lines below each are
  what it prints.
- `shell`: it is not run; that its `perdure` commands and options exist is tested.

In what is shown as printed, `...` stands for anything.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from sybil import Document, Example, Region, Sybil
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown.lexers import FencedCodeBlockLexer

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
SECONDS_A_COMMAND = 60


@dataclass
class Reader:
    """Reads one page.

    Attributes:
        folder: Where files are put and commands are run.
        names: What a page may use that it does not define.
        environment: What commands get beside the environment of the tests.
    """

    folder: Path
    names: dict[str, object] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    _printed: str = ""

    def read(self, page: Path) -> None:
        """Run the blocks of a page, in order."""
        document = Sybil([self._blocks]).parse(page)
        document.namespace.update({"__name__": "__main__", **self.names})
        for example in document.examples():
            example.evaluate()
        assert not self._printed, f"{page}: the page does not show what was printed:\n{self._printed}"

    def _blocks(self, document: Document) -> Iterator[Region]:
        lexer = FencedCodeBlockLexer(".+", mapping={"language": "info", "source": "source"})
        for region in lexer(document):
            region.parsed = region.lexemes["source"]
            region.evaluator = self._block
            yield region

    def _block(self, example: Example) -> None:
        info = example.region.lexemes["info"]
        assert not self._printed or info == "text", (
            f"{example}: the block above it printed, and this is not what it printed:\n{self._printed}"
        )
        if titled := re.fullmatch(r'python title="([\w.]+)"', info):
            (self.folder / titled[1]).write_text(example.parsed)
        elif info == "python":
            self._python(example)
        elif info == "console":
            self._console(example)
        elif info == "text" and self._printed:
            _compare(example.parsed, self._printed, str(example))
            self._printed = ""

    def _python(self, example: Example) -> None:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            PythonEvaluator()(example)
        self._printed = out.getvalue()

    def _console(self, example: Example) -> None:
        for command, shown in sessions(example.parsed):
            ended = subprocess.run(
                ["bash", "-c", f"{command}\nexit $?"],
                cwd=self.folder,
                env={**os.environ, **self.environment},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=SECONDS_A_COMMAND,
                check=False,
            )
            # A shell at a terminal says this in one word.
            printed = re.sub(r"^bash: line \d+: +\d+ Killed.*", "Killed", ended.stdout, flags=re.MULTILINE)
            _compare(shown, printed, f"{example}\n$ {command}")


def sessions(block: str) -> Iterator[tuple[str, str]]:
    """Take a `console` block apart: each command, and what is shown below it."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        yield command, shown


def commands(page: Path) -> list[list[str]]:
    """Return the words behind `perdure` of its commands in the `shell` and `console` blocks of a page."""
    found: list[list[str]] = []
    blocks = re.compile(r"^ *```(shell|console)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
    for language, block in blocks.findall(page.read_text()):
        for line in block.replace("\\\n", " ").splitlines():
            text = line.strip()
            if language == "console":
                text = text.removeprefix("$ ") if text.startswith("$ ") else ""
            for command in re.split(r"&&|\||;", text):
                words = shlex.split(command, comments=True)
                while words and (words[0] in ("uv", "run") or re.match(r"\w+=", words[0])):
                    words.pop(0)
                if words and words[0] == "perdure":
                    found.append(words[1:])
    return found


def environment(database_url: str) -> dict[str, str]:
    """Return what commands of a page need: the commands of this environment, and a database."""
    here = str(Path(sys.executable).parent)
    return {"PATH": f"{here}{os.pathsep}{os.environ['PATH']}", "PERDURE_DATABASE_URL": database_url}


def _compare(shown: str, printed: str, where: str) -> None:
    same = doctest.OutputChecker().check_output(_trimmed(shown), _trimmed(printed), doctest.ELLIPSIS)
    assert same, f"{where}\n--- the page shows\n{shown}\n--- it printed\n{printed}"


def _trimmed(text: str) -> str:
    lines = [line.rstrip() for line in text.strip().splitlines()]
    return "\n".join(lines) + "\n" if lines else ""
