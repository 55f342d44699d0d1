//! Compares redaction with a baseline: counting newlines with `memchr` in the same bytes, in the same run.
//!
//! `code` has no secret and few clues, like most texts. `clues` consists only of lines that look like secrets, and of
//! secrets. `beginnings` are clues without an end, the worst case of a hostile text.

#![allow(missing_docs)]

use divan::{Bencher, black_box, counter::BytesCount};
use plimsoll_redact::redact;

fn main() {
    divan::main();
}

const TEXTS: [&str; 3] = ["code", "clues", "beginnings"];

fn text(name: &str) -> String {
    let piece = match name {
        "code" => {
            "    let value = compute(input, 42); // an ordinary line of code with a https://example.org/link\n"
        }
        "clues" => {
            concat!(
                include_str!("../tests/it/corpus/secrets.txt"),
                include_str!("../tests/it/corpus/ordinary.txt")
            )
        }
        _ => "password=\"x://a:token: eyJ-sk-a1 cookie=?key= -u\n",
    };
    piece.repeat((1 << 20) / piece.len() + 1)
}

#[divan::bench(args = TEXTS)]
fn a_yardstick_memchr_newlines(bencher: Bencher, name: &str) {
    let text = text(name);
    bencher
        .counter(BytesCount::new(text.len()))
        .bench_local(|| memchr::memchr_iter(b'\n', black_box(text.as_bytes())).count());
}

#[divan::bench(args = TEXTS)]
fn redact_one_megabyte(bencher: Bencher, name: &str) {
    let text = text(name);
    bencher.counter(BytesCount::new(text.len())).bench_local(|| redact(black_box(&text)));
}
