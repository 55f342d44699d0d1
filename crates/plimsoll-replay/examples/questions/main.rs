//! Measures whether work can continue from a summary: answers questions about a recorded session from what is left of
//! it.
//!
//! `cargo run --release -p plimsoll-replay --example questions -- [--half tune|check] [--context N] [--budget N]
//! [--fork N] [--policy FILE] [--dump DIR] [--sessions] [FILE|DIR]…`
//!
//! Without a path, the sessions in `$PLIMSOLL_CORPUS` are used. Each session is cut at 40 % and at 70 % of its calls
//! and compacted there without a model, as if the user had requested it. The questions about a cut are derived from the
//! recording ([`ask`]): what the user asked for, files, commands with their outcome, failures, decisions, todos, and
//! what the recorded agent needed next. Two texts are searched for the answers ([`answer`]): a summary of everything
//! before the cut (`Summary`), and the window after a compaction with a tail (`Window`). Both are also searched after a
//! second compaction at 70 % that follows one at 40 %.
//!
//! The halves are those of the example `sweep`. User text, changes and failures are recognised by simple rules of this
//! example and not by the engine's, so that the measurement does not depend on what it measures.
//!
//! `--budget` sets the size of summaries, `--fork` measures a digest for a child with a window of that size instead,
//! and `--dump` writes summaries, questions and missing answers to a directory, for reading.

#![allow(clippy::print_stdout, clippy::print_stderr)]

mod answer;
mod ask;
mod calls;
mod words;

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use plimsoll::compact::{CompactionContext, Ladder, Step, Trigger};
use plimsoll::fork::{Child, fork_for};
use plimsoll::policy::Scope;
use plimsoll::{Ids, Limits, Log, Message, Millis, Policy, RequestOverhead, Tokens, Window};

use self::answer::Haystack;
use self::ask::{Kind, Question, ask};
use self::calls::{call_count, place_of_call};

/// Sessions with fewer calls contain too little work.
const MIN_CALLS: usize = 8;
/// Percentages of the calls at which a session is cut.
const FIRST_CUT: usize = 40;
const SECOND_CUT: usize = 70;
/// Tokens of a window that are reserved for the answer.
const OUTPUT: u64 = 8_000;
const NOW: Millis = Millis(1_794_775_451_033);

struct Options {
    half: Option<String>,
    context: Option<u64>,
    fork: Option<u64>,
    dump: Option<PathBuf>,
    per_session: bool,
    policy: Policy,
    /// Policy with a summary of everything and no tail.
    whole: Policy,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut options = Options {
        half: None,
        context: None,
        fork: None,
        dump: None,
        per_session: false,
        policy: Policy::default(),
        whole: Policy::default(),
    };
    let (mut paths, mut budget) = (Vec::<PathBuf>::new(), None);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--half" => options.half = args.next(),
            "--context" => options.context = args.next().map(|tokens| tokens.parse()).transpose()?,
            "--budget" => budget = args.next().map(|tokens| tokens.parse()).transpose()?,
            "--fork" => options.fork = args.next().map(|tokens| tokens.parse()).transpose()?,
            "--policy" => {
                options.policy = Policy::from_json(&fs::read_to_string(args.next().unwrap_or_default())?)?;
            }
            "--dump" => options.dump = args.next().map(PathBuf::from),
            "--sessions" => options.per_session = true,
            _ => paths.push(arg.into()),
        }
    }
    if paths.is_empty() {
        paths
            .push(std::env::var_os("PLIMSOLL_CORPUS").ok_or("name sessions, or set PLIMSOLL_CORPUS")?.into());
    }
    options.policy = as_automatic(options.policy, budget)?;
    let mut whole = options.policy.clone().into_spec();
    whole.compact.scope = Scope::All;
    options.whole = Policy::new(whole)?;
    let mut files = Vec::new();
    for path in paths {
        collect(&path, &mut files)?;
    }
    files.retain(|file| options.half.as_deref().is_none_or(|half| half == half_of(file)));
    let mut tally = Tally::default();
    for file in files {
        if let Ok(transcript) = plimsoll_formats::read(BufReader::new(File::open(&file)?)) {
            session(&file, transcript.messages, &options, &mut tally)?;
        }
    }
    tally.print();
    Ok(())
}

/// Applies the tail of automatic compactions to requested ones, because only a requested one always compacts.
fn as_automatic(policy: Policy, budget: Option<u64>) -> Result<Policy, Box<dyn Error>> {
    let mut spec = policy.into_spec();
    spec.compact.asked_tail_share = 1.0;
    if let Some(budget) = budget {
        (spec.compact.extractive_tokens, spec.compact.extractive_base) = (Tokens(budget), Tokens(budget));
        spec.compact.extractive_line_share = 1.0;
    }
    Ok(Policy::new(spec)?)
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    let mut entries =
        fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, std::io::Error>>()?;
    entries.sort();
    entries.iter().try_for_each(|entry| collect(entry, files))
}

fn half_of(file: &Path) -> &'static str {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    if blake3::hash(name.as_bytes()).as_bytes()[0] & 0x80 == 0 { "tune" } else { "check" }
}

fn session(
    file: &Path,
    messages: Vec<Message>,
    options: &Options,
    tally: &mut Tally,
) -> Result<(), Box<dyn Error>> {
    // Recorded summaries are removed, so that the whole history has to be summarised.
    let said = |message: &Message| !message.info.summary && message.marker().is_none();
    let messages: Vec<Message> = messages.into_iter().filter(said).collect();
    let calls = call_count(&messages);
    if calls < MIN_CALLS {
        return Ok(());
    }
    let cuts = [FIRST_CUT, SECOND_CUT].map(|share| place_of_call(&messages, calls * share / 100));
    let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut own = Tally::default();
    if let Some(window) = options.fork {
        for cut in cuts {
            let questions = ask(&messages, cut);
            own.add(Text::Fork, &questions, &digest(&messages[..cut], window, &options.policy)?);
        }
    } else {
        for cut in cuts {
            let questions = ask(&messages, cut);
            let whole = compacted(&messages, &[cut], &options.whole, options)?;
            let tailed = compacted(&messages, &[cut], &options.policy, options)?;
            own.add(Text::Summary, &questions, &whole.summary);
            own.add(Text::Window, &questions, &tailed.window);
            dump(options, &format!("{name}-{cut}"), &whole.summary, &tailed.window, &questions)?;
        }
        let questions = ask(&messages, cuts[1]);
        let whole = compacted(&messages, &cuts, &options.whole, options)?;
        let tailed = compacted(&messages, &cuts, &options.policy, options)?;
        own.add(Text::SecondSummary, &questions, &whole.summary);
        own.add(Text::SecondWindow, &questions, &tailed.window);
        dump(options, &format!("{name}-{}-second", cuts[1]), &whole.summary, &tailed.window, &questions)?;
    }
    if options.per_session {
        let shares: Vec<String> =
            own.texts.iter().map(|(text, kinds)| format!("{text:?} {}", total(kinds))).collect();
        println!("{name:24} {:5} {}", half_of(file), shares.join("  "));
    }
    tally.merge(own);
    Ok(())
}

fn fixed_ids() -> Ids {
    let mut seed = 7u64;
    Ids::new(move || {
        seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        seed
    })
}

fn weigh(log: &Log, policy: &Policy) -> Tokens {
    CompactionContext::new(policy.clone(), Limits::new(1_000_000, OUTPUT), NOW).estimate(log)
}

/// A log after its compactions.
struct Compacted {
    summary: Haystack,
    window: Haystack,
}

/// Compacts a session at each of the cuts without a model, in a window that is full at the first one.
fn compacted(
    messages: &[Message],
    cuts: &[usize],
    policy: &Policy,
    options: &Options,
) -> Result<Compacted, Box<dyn Error>> {
    let (mut log, mut ids, mut from) = (Log::default(), fixed_ids(), 0);
    let mut size = None;
    for cut in cuts {
        messages[from..*cut].iter().try_for_each(|message| log.append(message.clone()))?;
        from = *cut;
        let size = *size.get_or_insert_with(|| weigh(&log, policy).max(Tokens(8_000)));
        let context = options.context.unwrap_or(size.0 + OUTPUT);
        let limits = Limits::new(context, OUTPUT.min(context / 4));
        let context = CompactionContext {
            trigger: Trigger::Manual,
            ..CompactionContext::new(policy.clone(), limits, NOW)
        };
        if let Step::Done(outcome) = Ladder::new(log.clone(), context).climb(&mut ids)? {
            outcome.reduction.commit(&mut log)?;
        }
    }
    let summary =
        log.iter().rev().find(|message| message.info.summary).map(Message::text).unwrap_or_default();
    Ok(Compacted {
        summary: Haystack::of_text(&summary),
        window: Haystack::of_window(&Window::of(&log, policy)),
    })
}

fn digest(messages: &[Message], window: u64, policy: &Policy) -> Result<Haystack, Box<dyn Error>> {
    let child = Child {
        limits: Limits::new(window, window / 8),
        fixed: RequestOverhead::default(),
        task: "Continue the work.",
    };
    let digest = fork_for(messages, policy, &child, &policy.count)?;
    Ok(Haystack::of_text(&digest.message().unwrap_or_default()))
}

fn dump(
    options: &Options,
    name: &str,
    summary: &Haystack,
    window: &Haystack,
    questions: &[Question],
) -> Result<(), Box<dyn Error>> {
    let Some(directory) = &options.dump else { return Ok(()) };
    fs::create_dir_all(directory)?;
    let mut text = format!("{}\n\n=== questions\n", summary.text);
    for question in questions {
        let found = match (summary.answers(question), window.answers(question)) {
            (true, _) => "summary",
            (false, true) => "tail",
            (false, false) => "MISSING",
        };
        writeln!(text, "{found:8} {:12} {} {:?}", question.kind.name(), question.about, question.needs)?;
    }
    Ok(fs::write(directory.join(format!("{name}.txt")), text)?)
}

/// A text that is searched for answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Text {
    Summary,
    Window,
    SecondSummary,
    SecondWindow,
    Fork,
}

#[derive(Clone, Copy, Default)]
struct Share {
    answered: usize,
    asked: usize,
}

impl std::fmt::Display for Share {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.asked == 0 {
            return f.pad("-");
        }
        f.pad(&format!(
            "{}/{} {:.1}%",
            self.answered,
            self.asked,
            100.0 * self.answered as f64 / self.asked as f64
        ))
    }
}

fn total(kinds: &BTreeMap<Kind, Share>) -> Share {
    kinds.values().fold(Share::default(), |sum, share| Share {
        answered: sum.answered + share.answered,
        asked: sum.asked + share.asked,
    })
}

/// Answers by text and kind of question, and the mean share over sessions.
#[derive(Default)]
struct Tally {
    texts: BTreeMap<Text, BTreeMap<Kind, Share>>,
    sessions: BTreeMap<Text, Vec<f64>>,
    chars: BTreeMap<Text, Vec<usize>>,
}

impl Tally {
    fn add(&mut self, text: Text, questions: &[Question], haystack: &Haystack) {
        self.chars.entry(text).or_default().push(haystack.text.len());
        let kinds = self.texts.entry(text).or_default();
        for question in questions {
            let share = kinds.entry(question.kind).or_default();
            share.asked += 1;
            share.answered += usize::from(haystack.answers(question));
        }
    }

    fn merge(&mut self, session: Tally) {
        for (text, kinds) in session.texts {
            let all = total(&kinds);
            if all.asked > 0 {
                self.sessions.entry(text).or_default().push(all.answered as f64 / all.asked as f64);
            }
            let own = self.texts.entry(text).or_default();
            for (kind, share) in kinds {
                let sum = own.entry(kind).or_default();
                (sum.answered, sum.asked) = (sum.answered + share.answered, sum.asked + share.asked);
            }
        }
        for (text, chars) in session.chars {
            self.chars.entry(text).or_default().extend(chars);
        }
    }

    fn print(&self) {
        let texts: Vec<Text> = self.texts.keys().copied().collect();
        let row = |name: &str, cells: Vec<String>| {
            let cells: String = cells.iter().map(|cell| format!("{cell:>18}")).collect();
            println!("{name:14}{cells}");
        };
        row("", texts.iter().map(|text| format!("{text:?}")).collect());
        for kind in Kind::ALL {
            let shares = texts.iter().map(|text| self.texts[text].get(&kind).copied().unwrap_or_default());
            row(kind.name(), shares.map(|share| share.to_string()).collect());
        }
        row("all", texts.iter().map(|text| total(&self.texts[text]).to_string()).collect());
        let mean = |values: &[f64]| 100.0 * values.iter().sum::<f64>() / values.len().max(1) as f64;
        let means = texts.iter().map(|text| self.sessions.get(text).map_or(0.0, |shares| mean(shares)));
        row("mean session", means.map(|mean| format!("{mean:.1}%")).collect());
        let sizes =
            texts.iter().map(|text| self.chars[text].iter().sum::<usize>() / self.chars[text].len().max(1));
        row("mean bytes", sizes.map(|size| size.to_string()).collect());
    }
}
