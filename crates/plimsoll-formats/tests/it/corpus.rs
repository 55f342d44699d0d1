//! Real transcripts, if available: `PLIMSOLL_CORPUS=… cargo test -p plimsoll-formats -- --ignored --nocapture`.
#![allow(clippy::print_stdout)]

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::time::Instant;

use plimsoll::{Log, Policy, Window};
use plimsoll_formats::{Format, read, write};

use crate::support::check;

/// Files of the corpus that are HTTP recordings, not transcripts.
const OTHERS: [&str; 1] = ["cline-1.json"];

fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            files(&path, found);
        } else if !name.ends_with(".log") && !name.starts_with("README") {
            found.push(path);
        }
    }
}

#[test]
#[ignore = "needs PLIMSOLL_CORPUS"]
fn everything_reads_and_can_be_written() {
    let directory =
        std::env::var("PLIMSOLL_CORPUS").expect("PLIMSOLL_CORPUS names a directory of transcripts");
    let mut found = Vec::new();
    files(Path::new(&directory), &mut found);
    assert!(!found.is_empty(), "no transcripts in {directory}");
    for path in found {
        let start = Instant::now();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let transcript = match read(BufReader::new(File::open(&path).unwrap())) {
            Ok(transcript) => transcript,
            Err(error) if OTHERS.contains(&name.as_str()) => {
                println!("{name}: not read: {error}");
                continue;
            }
            Err(error) => panic!("{}: {error}", path.display()),
        };
        let took = start.elapsed();
        if !matches!(transcript.format, Format::OpencodeExport | Format::OpencodeMessages) {
            check(&transcript);
        }
        let log = Log::from_messages(transcript.messages.clone());
        let window = Window::of(&log, &Policy::default());
        window.check().unwrap_or_else(|illegal| panic!("{}: {illegal}", path.display()));
        let tools = log.iter().flat_map(|m| &m.parts).filter_map(|part| part.as_tool());
        let (done, open): (Vec<_>, Vec<_>) = tools.partition(|tool| tool.state.status.is_final());
        let usage = log.iter().filter(|message| message.info.tokens.is_some()).count();
        let pivots = log.iter().filter(|message| message.marker().is_some()).count();
        println!(
            "{} {}: {} messages, {} in the window, {} calls ({} open), {usage} usages, {pivots} pivots, {} side chains{}, {:.1} MB in {:.0?}",
            path.file_name().unwrap().to_string_lossy(),
            transcript.format,
            log.len(),
            window.messages.len(),
            done.len() + open.len(),
            open.len(),
            transcript.side_chains.len(),
            if transcript.torn { ", torn" } else { "" },
            path.metadata().unwrap().len() as f64 / 1e6,
            took,
        );
        println!("    skipped {:?}, unused {:?}", transcript.skipped, transcript.unused);
        transcript.notes.first().iter().for_each(|note| println!("    note {note}"));
        for format in [Format::OpencodeExport, Format::OpenaiChat, Format::AnthropicMessages] {
            let written = write(format, &transcript.info, &log).unwrap();
            let again = read(written.to_string().as_bytes()).unwrap();
            // A chat that only has texts is the same in both providers' formats.
            let is_plain =
                log.iter().all(|message| message.parts.iter().all(|part| part.as_tool().is_none()));
            assert!(again.format == format || is_plain, "{} as {format}", path.display());
            assert!(again.skipped.is_empty(), "{} as {format}: {:?}", path.display(), again.skipped);
            let calls = |messages: &[plimsoll::Message]| {
                messages.iter().flat_map(|m| &m.parts).filter(|part| part.as_tool().is_some()).count()
            };
            // Requests omit an answer that failed without any content.
            let is_sent = |message: &&plimsoll::Message| {
                let aborted = |error: &serde_json::Value| error["name"] == "MessageAbortedError";
                format == Format::OpencodeExport || message.info.error.as_ref().is_none_or(aborted)
            };
            let sent: Vec<_> = log.iter().filter(is_sent).cloned().collect();
            assert_eq!(calls(&again.messages), calls(&sent), "{} as {format}", path.display());
        }
    }
}
