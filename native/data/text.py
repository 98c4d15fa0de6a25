"""Writes text.txt beside this file: the prose of this repository. What it holds says README.md.

    python native/data/text.py
"""

import pathlib
import re

here = pathlib.Path(__file__).resolve().parent
root = here.parents[1]
# Measurements and lists of what holds are tables for the most part: they are left out.
documents = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", *sorted(f"docs/{path.name}" for path in root.glob("docs/*.md"))]
# What a user of the library reads.
folders = ["tensor", "nn", "optim", "train"]
# What a keyboard does not have, as it is written with one.
plain = {"–": "-", "—": "-", "−": "-", "×": "x", "…": "...", "’": "'", "“": '"', "”": '"', "→": "->", "²": "^2", "µ": "u"}


def prose(lines):
    """Lines without blocks of code and tables, and with one empty line for several."""
    kept, fenced = [], False
    for line in lines:
        if line.lstrip().startswith("```"):
            fenced = not fenced
            continue
        if fenced or line.lstrip().startswith("|") or not (line or (kept and kept[-1])):
            continue
        kept.append(line.rstrip())
    return "\n".join(kept).strip()


def comments(path):
    """The doc comments of a module, each on its own."""
    runs, last = [], -2
    for n, line in enumerate(path.read_text("utf-8").splitlines()):
        found = re.match(r" *//[/!](?!/) ?(.*)", line)
        if not found:
            continue
        if n != last + 1:
            runs.append([])
        runs[-1].append(found[1])
        last = n
    return "\n\n".join(filter(None, map(prose, runs)))


modules = [path for name in folders for path in sorted(root.glob(f"src/{name}/**/*.rs"))]
parts = [prose((root / name).read_text("utf-8").splitlines()) for name in documents]
parts += filter(None, map(comments, [root / "src" / "lib.rs", *modules]))
text = "\n\n".join(parts) + "\n"
text = "".join(plain.get(character, character) for character in text)
other = sorted(set(re.sub(r"[\n -~]", "", text)))
assert not other, f"these have no plain form yet: {other}"
(here / "text.txt").write_bytes(text.encode("ascii"))
