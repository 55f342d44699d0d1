//! R106: what leaves the window is never spoken of as deleted. Every notice, every help text and the documents are held
//! against that, sentence by sentence.

use clap::CommandFactory;
use plimsoll::Tokens;
use plimsoll_agent::{ReceiptFigures, ReductionKind, RunEnd};
use regex::Regex;

use super::{lists, words};
use crate::args::Cli;
use crate::notices::{Commands, end_notice, reduction_notice};

/// What a reader would take for a loss.
const LOSS: &str = r"(?i)\b(delet\w+|remov\w+|eras\w+|discard\w*|destroy\w*|dropp\w+|wip\w+|thrown away|lost|loses?|gone|forgotten)\b";
/// What the sentence is about.
const REDUCTION: &str = r"(?i)\b(prun\w+|compact\w*|summar\w+|set aside|left the window|leaves? the window|cleared|shorten\w*|truncat\w+|spill\w*|reduc\w+|outputs?)\b";
/// What says the opposite, or is about something that is a loss indeed: purging secrets, expiry, removing whole sessions.
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
    ReceiptFigures {
        receipt: "rcp_1".into(),
        kind,
        items,
        kept,
        lost: false,
        without_model: false,
        before: Tokens(20_000),
        after: Tokens(7_700),
        reason: "over the line".into(),
    }
}

fn helps(command: &mut clap::Command, all: &mut Vec<(String, String)>) {
    let name = command.get_name().to_owned();
    // These two take things away indeed, and say so.
    if ["rm", "purge"].contains(&name.as_str()) {
        return;
    }
    all.push((format!("help of {name}"), command.render_long_help().to_string()));
    command.get_subcommands_mut().for_each(|below| helps(below, all));
}

#[test]
fn r106_what_leaves_the_window_is_never_shown_as_deleted() {
    let checker = Checker::new();
    let mut problems = Vec::new();
    let kinds = [ReductionKind::Truncate, ReductionKind::Prune, ReductionKind::Compact, ReductionKind::Shed];
    for (kind, items) in kinds.into_iter().flat_map(|kind| [(kind, 1), (kind, 3)]) {
        let in_run = reduction_notice(&figures(kind, items, true), Commands::Shell).unwrap();
        problems.extend(checker.problems("notice of a run", &in_run));
        assert!(in_run.contains("kept") && in_run.contains("`plimsoll recall rcp_1`"), "{in_run}");
        assert!(kind == ReductionKind::Truncate || in_run.contains("`plimsoll undo rcp_1`"), "{in_run}");
        let told = reduction_notice(&figures(kind, items, true), Commands::Chat).unwrap();
        problems.extend(checker.problems("notice", &told));
        // Each says that it is kept, how to see it, and its receipt.
        assert!(told.contains("kept") && told.contains("`/recall") && told.contains("rcp_1"), "{told}");
        assert!(kind == ReductionKind::Truncate || told.contains("`/undo rcp_1`"), "{told}");
    }
    let mut all = vec![("/help".to_owned(), lists::help(200))];
    for text in [words::TOO_LITTLE, words::ALL_IN_VIEW, words::AGAIN_QUITS] {
        all.push(("notice".to_owned(), text.to_owned()));
    }
    all.push(("notice".to_owned(), end_notice(&RunEnd::Cancelled, Commands::Chat).unwrap()));
    // Whatever is told is in a literal; code is no sentence.
    let literals = Regex::new(r#""[^"\n]*""#).unwrap();
    for source in [
        include_str!("act.rs"),
        include_str!("tell.rs"),
        include_str!("../run/tell.rs"),
        include_str!("../notices.rs"),
    ] {
        all.extend(literals.find_iter(source).map(|found| ("literal".to_owned(), found.as_str().to_owned())));
    }
    helps(&mut Cli::command(), &mut all);
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs = std::fs::read_dir(root.join("docs")).unwrap().flatten().map(|entry| entry.path());
    for path in
        docs.filter(|path| path.extension().is_some_and(|end| end == "md")).chain([root.join("README.md")])
    {
        all.push((path.file_name().unwrap().display().to_string(), std::fs::read_to_string(&path).unwrap()));
    }
    assert!(all.len() > 50, "help texts and documents were found");
    problems.extend(all.iter().flat_map(|(source, text)| checker.problems(source, text)));
    assert!(problems.is_empty(), "a reader would think that something is lost:\n{}", problems.join("\n"));
}

#[test]
fn r106_the_check_finds_what_it_looks_for() {
    let checker = Checker::new();
    for bad in [
        "3 outputs were deleted",
        "Old outputs are removed\nfrom the window",
        "the summary discards messages",
    ] {
        assert_eq!(checker.problems("x", bad).len(), 1, "{bad}");
    }
    for good in ["Pruning is not deletion: outputs stay", "3 outputs were set aside", "the file was removed"]
    {
        assert!(checker.problems("x", good).is_empty(), "{good}");
    }
}
