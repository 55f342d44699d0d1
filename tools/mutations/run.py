#!/usr/bin/env python3
"""Breaks lines of the source one at a time and reports which tests of requirements fail.

usage: run.py [FILTER]     only mutations whose requirement or file contains FILTER; `R50..` starts with R50

Each mutation in mutations.txt has four lines: requirements and test filter, crate and file, the original text, and the
text that breaks it (⏎ is a line break). A mutation that survives shows a requirement without an effective test.
"""
import pathlib, subprocess, sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = pathlib.Path(__file__).with_name("mutations.txt")


def mutations():
    blocks = TABLE.read_text().split("\n\n")
    for block in blocks:
        lines = [line for line in block.strip("\n").splitlines() if not line.startswith("# ")]
        if not lines:
            continue
        name, place, before, after = (lines + [""])[:4]
        names, _, tests = name.partition(":")
        crate, path = place.split()
        lines = lambda text: text.replace("⏎", "\n")
        yield names.strip(), tests.split(), crate, ROOT / "crates" / crate / path, lines(before), lines(after)


def run(crate, tests):
    command = ["cargo", "test", "-q", "-p", crate, "--no-fail-fast", "--tests", "--", *tests]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)
    out = done.stdout + done.stderr
    if "could not compile" in out:
        return "does not compile", out
    named = (line.strip() for line in out.splitlines() if line.startswith("    "))
    failed = sorted({name for name in named if "::" in name and " " not in name})
    if done.returncode == 0:
        ran = any("passed" in line and not line.startswith("test result: ok. 0 passed") for line in out.splitlines())
        return ("SURVIVED" if ran else "no test ran"), ""
    return "killed by " + (", ".join(failed[:3]) or "a failure"), ""


def main():
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    survived, is_begun = 0, not wanted.endswith("..")
    for names, tests, crate, path, before, after in mutations():
        is_begun = is_begun or names == wanted.removesuffix("..")
        if not is_begun or (not wanted.endswith("..") and wanted not in names and wanted not in str(path)):
            continue
        text = path.read_text()
        if text.count(before) < 1:
            print(f"{names}: text not found in {path.relative_to(ROOT)}: {before!r}", flush=True)
            survived += 1
            continue
        try:
            path.write_text(text.replace(before, after, 1))
            try:
                verdict, out = run(crate, tests)
            except subprocess.TimeoutExpired:
                verdict, out = "killed by a timeout", ""
        finally:
            path.write_text(text)
        survived += not verdict.startswith("killed")
        print(f"{names}: {verdict}", flush=True)
        if out:
            print(out[-2000:], flush=True)
    sys.exit(1 if survived else 0)


main()
