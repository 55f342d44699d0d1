//! Token counting, compared with counting newlines in the same bytes, and with `bpe-openai`.
//!
//! `cargo bench -p plimsoll-tokens` prints bytes per second. The ratio of a row to its `newlines` does not depend on
//! the speed of the machine.

use divan::Bencher;
use divan::counter::BytesCount;
use plimsoll::{CharCounter, Counter};
use plimsoll_tokens::Bpe;

fn main() {
    // `bpe-openai` decodes its tables once per process, which is not measured.
    for reference in [bpe_openai::o200k_base(), bpe_openai::cl100k_base()] {
        divan::black_box(reference.count("x"));
    }
    divan::main();
}

/// Source code, prose and a log, as a coding agent sees them, with identifiers that do not repeat.
fn text(bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 300);
    let mut seed = 0x2545_f491_4f6c_dd1du64;
    while text.len() < bytes {
        seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        let (name, line) = (seed >> 40, seed >> 52);
        text.push_str(&match seed >> 62 {
            0 => format!("    let entry_{name:x} = self.lookup(\"key-{name}\", {line})?;\n"),
            1 => format!("The planner keeps the last {line} messages and clears what came before them.\n"),
            2 => format!("2026-11-15T21:{:02}:07Z INFO store: wrote {name} bytes in {line} ms\n", line % 60),
            _ => format!("/home/dev/project/src/module_{line}.rs:{line}: naïve café — “quoted” 你好\n"),
        });
    }
    let end = text.floor_char_boundary(bytes);
    text.truncate(end);
    text
}

fn newlines(text: &str) -> usize {
    memchr::memchr_iter(b'\n', text.as_bytes()).count()
}

fn measure<R>(bencher: Bencher<'_, '_>, text: &str, count: impl Fn(&str) -> R + Sync) {
    bencher.counter(BytesCount::of_str(text)).bench(|| count(divan::black_box(text)));
}

const MB: usize = 1_000_000;

mod ordinary {
    use super::*;

    #[divan::bench(args = [1, 10, 100], sample_count = 10)]
    fn a_newlines(bencher: Bencher<'_, '_>, megabytes: usize) {
        measure(bencher, &text(megabytes * MB), newlines);
    }

    #[divan::bench(args = [1, 10, 100], sample_count = 10)]
    fn b_chars(bencher: Bencher<'_, '_>, megabytes: usize) {
        measure(bencher, &text(megabytes * MB), |text| CharCounter::default().count(text));
    }

    #[divan::bench(args = [1, 10], sample_count = 5)]
    fn c_o200k(bencher: Bencher<'_, '_>, megabytes: usize) {
        measure(bencher, &text(megabytes * MB), |text| Bpe::O200k.count(text));
    }

    #[divan::bench(args = [1, 10], sample_count = 5)]
    fn d_cl100k(bencher: Bencher<'_, '_>, megabytes: usize) {
        measure(bencher, &text(megabytes * MB), |text| Bpe::Cl100k.count(text));
    }

    #[divan::bench(args = [1, 10], sample_count = 5)]
    fn e_o200k_by_bpe_openai(bencher: Bencher<'_, '_>, megabytes: usize) {
        measure(bencher, &text(megabytes * MB), |text| bpe_openai::o200k_base().count(text));
    }

    #[divan::bench(args = [1, 10], sample_count = 5)]
    fn f_cl100k_by_bpe_openai(bencher: Bencher<'_, '_>, megabytes: usize) {
        measure(bencher, &text(megabytes * MB), |text| bpe_openai::cl100k_base().count(text));
    }
}

/// Each at one and at four units of 250 kB: linear if the bytes per second stay.
mod hostile {
    use super::*;

    const UNITS: [(&str, &str); 12] = [
        ("spaces", " "),
        ("newlines", "\n"),
        ("tabs", "\t"),
        ("letter", "a"),
        ("capital", "A"),
        ("digits", "7"),
        ("dashes", "-"),
        ("slashes", "/"),
        ("ideographs", "中"),
        ("families", "👨‍👩‍👧‍👦"),
        ("marks", "\u{301}"),
        ("base64", "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo"),
    ];

    fn runs() -> impl Iterator<Item = Run> {
        UNITS.into_iter().flat_map(|(name, unit)| [1, 4].map(|quarters| Run { name, unit, quarters }))
    }

    struct Run {
        name: &'static str,
        unit: &'static str,
        quarters: usize,
    }

    impl Run {
        fn text(&self) -> String {
            self.unit.repeat(self.quarters * MB / 4 / self.unit.len())
        }
    }

    impl std::fmt::Display for Run {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "{} {} kB", self.name, self.quarters * 250)
        }
    }

    #[divan::bench(args = runs(), sample_count = 3, sample_size = 1)]
    fn a_newlines(bencher: Bencher<'_, '_>, run: &Run) {
        measure(bencher, &run.text(), newlines);
    }

    #[divan::bench(args = runs(), sample_count = 3, sample_size = 1)]
    fn b_o200k(bencher: Bencher<'_, '_>, run: &Run) {
        measure(bencher, &run.text(), |text| Bpe::O200k.count(text));
    }

    #[divan::bench(args = runs(), sample_count = 3, sample_size = 1)]
    fn c_cl100k(bencher: Bencher<'_, '_>, run: &Run) {
        measure(bencher, &run.text(), |text| Bpe::Cl100k.count(text));
    }
    #[divan::bench(args = runs(), sample_count = 3, sample_size = 1)]
    fn d_o200k_by_bpe_openai(bencher: Bencher<'_, '_>, run: &Run) {
        measure(bencher, &run.text(), |text| bpe_openai::o200k_base().count(text));
    }
}
