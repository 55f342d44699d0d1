#!/usr/bin/env python3
"""Prints, for each crate: lines, files, comment shares, public items, and the size of its tests.

`reasons` is the share of all lines that are comments, doc comments included, with a word that gives a reason: because, so that,
otherwise, instead, rather than, would, must not, avoid, prevents, since.

`plain` is the number of lines of plain `//` comments per 100 lines of code, which are the lines that are neither blank nor a
comment. This is the figure that is compared with other projects: jj has 8.46 %, ripgrep 4.07 %.
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


def is_plain(comment):
    """Whether a comment is not a doc comment."""
    return not comment.startswith(("///", "//!"))


def share(part, whole, decimals=1):
    return f"{100 * part / max(whole, 1):.{decimals}f} %"


def crate_figures(crate):
    """Returns the figures of a crate that can be added up."""
    files = [path.read_text().splitlines() for path in sorted((crate / "src").rglob("*.rs"))]
    tests = [path.read_text().splitlines() for path in sorted((crate / "tests").rglob("*.rs"))]
    lines = [line.strip() for file in files for line in file]
    comments = [line for line in lines if line.startswith("//")]
    return {
        "lines": len(lines),
        "sizes": [len(file) for file in files],
        "functions": [length for file in files for length in functions(file)],
        "comments": len(comments),
        "reasons": sum(bool(WHY.search(line)) for line in comments),
        "plain": sum(is_plain(line) for line in comments),
        "code": sum(bool(line) for line in lines) - len(comments),
        "public": sum(bool(PUBLIC.match(line)) for file in files for line in file),
        "tests": sum(len(file) for file in tests),
    }


def row(figures):
    lines, lengths = figures["lines"], figures["functions"] or [0]
    return {
        "lines": lines, "files": len(figures["sizes"]),
        "median": int(statistics.median(figures["sizes"])), "max": max(figures["sizes"]),
        "fn": int(statistics.median(lengths)), "fn max": max(lengths),
        "comments": share(figures["comments"], lines), "reasons": share(figures["reasons"], lines),
        "plain": share(figures["plain"], figures["code"], 2),
        "public": figures["public"], "tests": f"{figures['tests'] / lines:.2f}",
    }


def main():
    crates = {crate.name: crate_figures(crate) for crate in sorted((ROOT / "crates").iterdir()) if (crate / "src").is_dir()}
    figures = list(crates.values())
    # Adding lists concatenates them, so that the medians of the total are those of all files and functions.
    total = {key: sum((each[key] for each in figures[1:]), figures[0][key]) for key in figures[0]}
    rows = {name: row(each) for name, each in crates.items()} | {"all": row(total)}
    columns = list(rows["all"])
    print(f"{'crate':20}" + "".join(f"{column:>10}" for column in columns))
    for name, cells in rows.items():
        print(f"{name:20}" + "".join(f"{cells[column]:>10}" for column in columns))


main()
