#!/usr/bin/env python3
"""Prints, for each crate: lines, files, comment shares, public items, and the size of its tests.

A why-comment is a `//` comment (not a doc comment) or doc line with a word that gives a reason: because, so that, otherwise,
instead, rather than, would, must not, avoid, prevents, since.
"""
import pathlib
import re
import statistics

ROOT = pathlib.Path(__file__).resolve().parents[2]
WHY = re.compile(r"\b(because|so that|otherwise|instead|rather than|would|must not|avoids?|prevents?|since)\b", re.I)
PUBLIC = re.compile(r"^\s*pub (?:async |const |unsafe )*(?:fn|struct|enum|trait|type|mod|const|static)\b")
FUNCTION = re.compile(r"^(\s*)(?:pub(?:\([a-z]+\))? )?(?:async |const )*fn \w")


def functions(lines):
    """Yields the length of each function, from its `fn` to the closing brace at the same indentation."""
    for start, line in enumerate(lines):
        if match := FUNCTION.match(line):
            end = next((n for n in range(start, len(lines)) if lines[n].rstrip() == match[1] + "}"), start)
            yield end - start + 1


def measure(crate):
    files = [path.read_text().splitlines() for path in sorted((crate / "src").rglob("*.rs"))]
    tests = sum(len(path.read_text().splitlines()) for path in (crate / "tests").rglob("*.rs")) if (crate / "tests").exists() else 0
    lines = [line for file in files for line in file]
    comments = [line.strip() for line in lines if line.strip().startswith("//")]
    sizes = [len(file) for file in files]
    lengths = [length for file in files for length in functions(file)] or [0]
    return {
        "lines": len(lines), "files": len(files), "median": int(statistics.median(sizes)), "max": max(sizes),
        "fn": int(statistics.median(lengths)), "fn max": max(lengths),
        "comments": f"{100 * len(comments) / len(lines):.1f} %",
        "why": f"{100 * sum(bool(WHY.search(line)) for line in comments) / len(lines):.1f} %",
        "public": sum(bool(PUBLIC.match(line)) for line in lines),
        "tests": f"{tests / len(lines):.2f}",
    }


def main():
    rows = {crate.name: measure(crate) for crate in sorted((ROOT / "crates").iterdir()) if (crate / "src").is_dir()}
    columns = list(next(iter(rows.values())))
    print(f"{'crate':20}" + "".join(f"{column:>10}" for column in columns))
    for name, row in rows.items():
        print(f"{name:20}" + "".join(f"{row[column]:>10}" for column in columns))
    print(f"{'all':20}{sum(row['lines'] for row in rows.values()):>10}{sum(row['files'] for row in rows.values()):>10}")


main()
