//! Compares windows that are rebuilt from transcripts with the usage that their providers recorded.
//!
//! ```text
//! cargo run --release -p plimsoll-tokens --example rebuilt -- FILE…
//! ```
//!
//! Without arguments it reads the transcripts under `$PLIMSOLL_CORPUS`. For each response from the fifth on, the
//! rebuilt window is divided by the recorded input. The hidden part is taken from the first four responses.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::error::Error;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use plimsoll::{Policy, RequestOverhead, Window, request_tokens};
use plimsoll_tokens::{FIRST_RESPONSES, WindowMeter};

fn report(path: &Path) -> Result<(), Box<dyn Error>> {
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let transcript = match plimsoll_formats::read(BufReader::new(File::open(path)?)) {
        Ok(transcript) => transcript,
        Err(_) => return Ok(()),
    };
    let model = transcript.info.model.clone().unwrap_or_else(|| "?".to_owned());
    let policy = Policy::default();
    let chars =
        request_tokens(&Window::of(&transcript.messages, &policy), RequestOverhead::default(), &policy.count);
    let Some(measured) = WindowMeter::of(&transcript.messages).read() else {
        println!("| {name} | {model} | 0 | | | | | | |");
        return Ok(());
    };
    let all = measured.requests().len();
    let later = measured.requests().skip(FIRST_RESPONSES);
    let mut ratios: Vec<f64> =
        later.map(|(recorded, rebuilt)| rebuilt.0 as f64 / recorded.0.max(1) as f64).collect();
    ratios.sort_by(f64::total_cmp);
    let at = |share: f64| ratios.get(((ratios.len().max(1) - 1) as f64 * share) as usize);
    let cell = |ratio: Option<&f64>| ratio.map_or_else(String::new, |ratio| format!("{ratio:.3}"));
    println!(
        "| {name} | {model} | {all} | {} | {} | {} | {:.2} | {} | {:.2} |",
        cell(at(0.5)),
        cell(at(0.0)),
        cell(at(1.0)),
        measured.factor(),
        measured.hidden(),
        chars.0 as f64 / measured.last_request().0.max(1) as f64,
    );
    Ok(())
}

fn corpus(directory: &Path, found: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    let mut entries = std::fs::read_dir(directory)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()?;
    entries.sort();
    for path in entries {
        if path.is_dir() {
            corpus(&path, found)?;
        } else {
            found.push(path);
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    if paths.is_empty() {
        let root = std::env::var_os("PLIMSOLL_CORPUS").ok_or("name transcripts, or set PLIMSOLL_CORPUS")?;
        corpus(Path::new(&root), &mut paths)?;
    }
    println!(
        "| session | model | responses | median | lowest | highest | factor | hidden | chars/4 of the last |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for path in paths {
        report(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}
