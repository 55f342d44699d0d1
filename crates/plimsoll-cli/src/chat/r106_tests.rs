//! R106: content that leaves the window is never described as deleted. Checks every notice, help text and document,
//! sentence by sentence.

use clap::CommandFactory;
use plimsoll::{Millis, Plan, Receipt, Tokens};
use plimsoll_agent::{ReceiptFigures, ReductionKind, RunEnd};
use regex::Regex;

use super::{lists, messages};
use crate::args::Cli;
use crate::notices::{Commands, end_notice, reduction_notice};

/// Words that suggest a loss.
const LOSS: &str = r"(?i)\b(delet\w+|remov\w+|eras\w+|discard\w*|destroy\w*|dropp\w+|wip\w+|thrown away|lost|loses?|gone|forgotten)\b";
/// Words that mark a sentence as being about reductions.
const REDUCTION: &str = r"(?i)\b(prun\w+|compact\w*|summar\w+|set aside|left the window|leaves? the window|cleared|shorten\w*|truncat\w+|spill\w*|reduc\w+|outputs?)\b";
/// Words that negate a loss, or mark sentences about real ones: purging secrets, expiry, removing whole sessions.
const SAYS_NOT: &str =
    r"(?i)\b(not|never|nothing|no|none|without|purg\w*|expir\w*|sessions rm|secrets?|gc|key|keys)\b";

struct Checker {
    loss: Regex,
    reduction: Regex,
    says_not: Regex,
}

impl Checker {
    fn new() -> Checker {
        let regex = |text: &str| Regex::new(text).unwrap();
        Checker { loss: regex(LOSS), reduction: regex(REDUCTION), says_not: regex(SAYS_NOT) }
    }

    fn problems(&self, source: &str, text: &str) -> Vec<String> {
        let bare = anstream::adapter::strip_str(text).to_string();
        let paragraphs = bare.split("\n\n").flat_map(|paragraph| paragraph.split("\n- "));
        let joined = paragraphs.flat_map(|paragraph| {
            let lines =
                paragraph.split("\n|").map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
            lines.collect::<Vec<_>>()
        });
        let sentences = joined.flat_map(|text| text.split(". ").map(str::to_owned).collect::<Vec<_>>());
        let speaks_of_loss = |sentence: &String| {
            self.reduction.is_match(sentence)
                && self.loss.is_match(sentence)
                && !self.says_not.is_match(sentence)
        };
        sentences.filter(speaks_of_loss).map(|sentence| format!("{source}: {sentence}")).collect()
    }
}

fn figures(kind: ReductionKind, items: u64, kept: bool) -> ReceiptFigures {
    let sizes = (Tokens(20_000), Tokens(7_700));
    let receipt =
        Receipt::new("rcp_1".into(), Millis(0), Plan::Prune(plimsoll::prune::PrunePlan::default()), sizes);
    let mut figures = ReceiptFigures::from(&receipt);
    (figures.kind, figures.items, figures.kept) = (kind, items, kept);
    figures.reason = "over the line".into();
    figures
}

fn helps(command: &mut clap::Command, all: &mut Vec<(String, String)>) {
    let name = command.get_name().to_owned();
    // These two do remove content, and say so.
    if ["rm", "purge"].contains(&name.as_str()) {
        return;
    }
    all.push((format!("help of {name}"), command.render_long_help().to_string()));
    command.get_subcommands_mut().for_each(|below| helps(below, all));
}

#[test]
fn r106_content_that_leaves_the_window_is_never_described_as_deleted() {
    let checker = Checker::new();
    let mut problems = Vec::new();
    let kinds = [ReductionKind::Truncate, ReductionKind::Prune, ReductionKind::Compact, ReductionKind::Shed];
    for (kind, items) in kinds.into_iter().flat_map(|kind| [(kind, 1), (kind, 3)]) {
        let in_run = reduction_notice(&figures(kind, items, true), Commands::Shell).unwrap();
        problems.extend(checker.problems("notice of a run", &in_run));
        assert!(in_run.contains("stored") && in_run.contains("`plimsoll recall rcp_1`"), "{in_run}");
        assert!(kind == ReductionKind::Truncate || in_run.contains("`plimsoll undo rcp_1`"), "{in_run}");
        let in_chat = reduction_notice(&figures(kind, items, true), Commands::Chat).unwrap();
        problems.extend(checker.problems("notice", &in_chat));
        // Each says that the content is stored, how to show it, and its receipt.
        assert!(
            in_chat.contains("stored") && in_chat.contains("`/recall") && in_chat.contains("rcp_1"),
            "{in_chat}"
        );
        assert!(kind == ReductionKind::Truncate || in_chat.contains("`/undo rcp_1`"), "{in_chat}");
    }
    let mut all = vec![("/help".to_owned(), lists::help(200))];
    for text in [messages::TOO_LITTLE, messages::ALL_IN_VIEW, messages::AGAIN_QUITS] {
        all.push(("notice".to_owned(), text.to_owned()));
    }
    all.push(("notice".to_owned(), end_notice(&RunEnd::Cancelled, Commands::Chat).unwrap()));
    // Every other message is in a string literal of these files.
    let literals = Regex::new(r#""[^"\n]*""#).unwrap();
    for source in [
        include_str!("act.rs"),
        include_str!("events.rs"),
        include_str!("../run/progress.rs"),
        include_str!("../notices.rs"),
    ] {
        all.extend(literals.find_iter(source).map(|found| ("literal".to_owned(), found.as_str().to_owned())));
    }
    helps(&mut Cli::command(), &mut all);
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs = std::fs::read_dir(root.join("docs")).unwrap().flatten().map(|entry| entry.path());
    let is_page = |path: &std::path::PathBuf| {
        // CLI.md contains the help texts, which were checked above without `rm` and `purge`.
        path.extension().is_some_and(|end| end == "md") && !path.ends_with("CLI.md")
    };
    for path in docs.filter(is_page).chain([root.join("README.md")]) {
        all.push((path.file_name().unwrap().display().to_string(), std::fs::read_to_string(&path).unwrap()));
    }
    assert!(all.len() > 50, "help texts and documents were found");
    problems.extend(all.iter().flat_map(|(source, text)| checker.problems(source, text)));
    assert!(problems.is_empty(), "these sentences suggest a loss:\n{}", problems.join("\n"));
}

#[test]
fn r106_the_check_finds_sentences_that_suggest_a_loss() {
    let checker = Checker::new();
    for bad in [
        "3 outputs were deleted",
        "Old outputs are removed\nfrom the window",
        "the summary discards messages",
    ] {
        assert_eq!(checker.problems("x", bad).len(), 1, "{bad}");
    }
    for good in ["Pruning is not deletion: outputs stay", "3 outputs were cleared", "the file was removed"] {
        assert!(checker.problems("x", good).is_empty(), "{good}");
    }
}
