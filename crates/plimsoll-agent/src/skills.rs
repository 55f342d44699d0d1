//! Skills: directories with a `SKILL.md` that explains how to do something.
//!
//! Skills are found where other agents store them, in the home and in the project. A project's skills come with its
//! checkout. Like its `AGENTS.md` and `instructions`, they are used without trust: the model may read them anyway, they
//! change no rule, and they have an effect only when the model requests one. Two checks limit a hostile checkout. Its
//! file must lie in the project after links are resolved, so that no private file is shown under a skill's name. And a
//! skill of the user has priority over the project's skill with the same name.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ignore::WalkBuilder;
use plimsoll_config::read_resolved;

/// Maximum number of skills.
const MAX_SKILLS: usize = 50;
/// Maximum length of a shown description, in chars.
const DESCRIPTION: usize = 300;
/// Maximum length of a name, in chars.
const NAME: usize = 64;
/// Maximum size of a `SKILL.md` in bytes; a longer one is cut.
const MAX_TEXT: u64 = 200_000;
/// Number of bytes read to find name and description.
const HEAD: u64 = 8_192;
/// Maximum depth at which skills and their files are searched.
const DEPTH: usize = 3;
/// Maximum number of listed files of a skill.
const MAX_FILES: usize = 100;
/// Maximum number of entries that are searched.
const MAX_ENTRIES: usize = 5_000;

/// Directories of skills in a project.
const PROJECT: [&str; 5] =
    [".plimsoll/skills", ".opencode/skill", ".opencode/skills", ".claude/skills", ".agents/skills"];
/// Directories of skills in a home.
const HOME: [&str; 8] = [
    ".config/plimsoll/skills",
    ".plimsoll/skills",
    ".config/opencode/skill",
    ".config/opencode/skills",
    ".opencode/skill",
    ".opencode/skills",
    ".claude/skills",
    ".agents/skills",
];

/// A directory that is searched for skills.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillPlace {
    /// The directory.
    pub directory: PathBuf,
    /// Directory that its skills must lie in after links are resolved; `None` for any.
    pub within: Option<PathBuf>,
}

/// A skill.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkillEntry {
    /// Name.
    pub name: String,
    /// Description, shortened.
    pub description: String,
    /// `SKILL.md`, with links resolved.
    pub file: PathBuf,
}

impl SkillEntry {
    /// Returns its directory, with links resolved.
    pub fn directory(&self) -> &Path {
        self.file.parent().unwrap_or(&self.file)
    }

    /// Returns the first 200,000 bytes of its text without the header, and whether it was cut.
    pub fn text(&self) -> std::io::Result<(String, bool)> {
        let head = read_resolved(&self.file, MAX_TEXT)?;
        let text = String::from_utf8_lossy(&head.bytes);
        Ok((split_head(&text).1.trim().to_owned(), head.is_cut()))
    }

    /// Returns its other files, relative to its directory and sorted, and whether there are more.
    pub(crate) fn files(&self) -> (Vec<String>, bool) {
        let directory = self.directory();
        let walk =
            WalkBuilder::new(directory).max_depth(Some(DEPTH)).standard_filters(false).hidden(true).build();
        let names = walk.take(MAX_ENTRIES).flatten().filter_map(|entry| {
            let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
            let name = entry.path().strip_prefix(directory).ok()?.to_str()?.to_owned();
            (is_file && entry.path() != self.file).then_some(name)
        });
        let mut names: Vec<String> = names.collect();
        names.sort();
        let has_more = names.len() > MAX_FILES;
        names.truncate(MAX_FILES);
        (names, has_more)
    }
}

/// Returns the directories of a home and a project, those with the highest priority first.
pub fn skill_places(project: &Path, home: Option<&Path>, configured: Vec<SkillPlace>) -> Vec<SkillPlace> {
    let (users, projects): (Vec<SkillPlace>, Vec<SkillPlace>) =
        configured.into_iter().partition(|place| place.within.is_none());
    let of_home = home.into_iter().flat_map(|home| HOME.map(|directory| home.join(directory)));
    let of_home = of_home.map(|directory| SkillPlace { directory, within: None });
    // If the project is the home itself, its directories are already included as the user's.
    let own = Some(project).filter(|project| home.is_none_or(|home| !same(home, project)));
    let of_project = own.into_iter().flat_map(|project| {
        PROJECT.map(|directory| SkillPlace {
            directory: project.join(directory),
            within: Some(project.to_owned()),
        })
    });
    users.into_iter().chain(of_home).chain(projects).chain(of_project).collect()
}

fn same(one: &Path, other: &Path) -> bool {
    one.canonicalize().ok().is_some_and(|one| other.canonicalize().ok() == Some(one))
}

/// Returns the skills in these directories, each name once, in the order of the directories.
pub fn find_skills(places: &[SkillPlace]) -> Vec<SkillEntry> {
    let mut found: Vec<SkillEntry> = Vec::new();
    let mut names = BTreeSet::new();
    for place in places {
        let within = place.within.as_ref().map(|within| within.canonicalize().unwrap_or(within.clone()));
        // Links are followed, because users link skills into their homes. Their targets are checked below.
        let mut walk = WalkBuilder::new(&place.directory);
        walk.max_depth(Some(DEPTH)).standard_filters(false).follow_links(true).sort_by_file_path(Path::cmp);
        let inside = within.clone();
        // A link in a checkout must not lead into the user's other directories.
        walk.filter_entry(move |entry| {
            let Some(within) = inside.as_ref().filter(|_| entry.path_is_symlink()) else { return true };
            entry.path().canonicalize().is_ok_and(|real| real.starts_with(within))
        });
        for entry in walk.build().take(MAX_ENTRIES).flatten() {
            if entry.file_name() != "SKILL.md" {
                continue;
            }
            let Ok(file) = entry.path().canonicalize() else { continue };
            if within.as_ref().is_some_and(|within| !file.starts_with(within)) {
                continue;
            }
            let Some(skill) = read_head(entry.path(), file) else { continue };
            if found.len() < MAX_SKILLS && names.insert(skill.name.clone()) {
                found.push(skill);
            }
        }
    }
    found
}

/// Reads name and description from the header of a file; `None` without a description.
fn read_head(found: &Path, file: PathBuf) -> Option<SkillEntry> {
    let bytes = read_resolved(&file, HEAD).ok()?.bytes;
    let text = String::from_utf8_lossy(&bytes);
    let (head, _) = split_head(&text);
    let directory = found.parent()?.file_name()?.to_str()?;
    let name = field(head, "name").unwrap_or_else(|| directory.to_owned());
    let is_name = |c: char| c.is_alphanumeric() || "-_.:".contains(c);
    if name.is_empty() || name.chars().count() > NAME || !name.chars().all(is_name) {
        return None;
    }
    let description = field(head, "description").filter(|text| !text.is_empty())?;
    let mut shown: String = description.chars().take(DESCRIPTION).collect();
    if shown.len() < description.len() {
        shown.push('…');
    }
    Some(SkillEntry { name, description: shown, file })
}

/// Returns the lines between `---` at the beginning of a text, and the rest.
fn split_head(text: &str) -> (&str, &str) {
    let text = text.trim_start_matches('\u{feff}');
    let inner = text.strip_prefix("---").and_then(|rest| rest.split_once('\n')).map(|(_, inner)| inner);
    let Some(inner) = inner.filter(|_| text.lines().next().is_some_and(|line| line.trim_end() == "---"))
    else {
        return ("", text);
    };
    let mut at = 0;
    for line in inner.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return (&inner[..at], &inner[at + line.len()..]);
        }
        at += line.len();
    }
    // If the header does not end, none of the text is shown.
    (inner, "")
}

/// Returns a field of the header as one line: plain or quoted text, or indented lines. A full YAML parser is not needed
/// for two texts, and untrusted text should not reach one.
fn field(head: &str, name: &str) -> Option<String> {
    let mut lines = head.lines();
    let first = lines.by_ref().find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'))?;
    let first = first.trim();
    let continues: Vec<&str> =
        lines.take_while(|line| line.starts_with([' ', '\t']) || line.is_empty()).collect();
    let is_block = first.starts_with(['>', '|']);
    let mut text = if is_block { String::new() } else { first.to_owned() };
    for line in continues {
        text.push(' ');
        text.push_str(line);
    }
    let text = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let text = text.collect::<Vec<_>>().join(" ");
    let quoted = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    Some(quoted('"').or_else(|| quoted('\'')).map(str::to_owned).unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use super::{field, split_head};

    #[test]
    fn headers_of_skills_are_parsed() {
        let (head, text) = split_head("---\nname: tides\ndescription: \"Reads: tide tables\"\n---\nDo it.\n");
        assert_eq!(field(head, "name").as_deref(), Some("tides"));
        assert_eq!(field(head, "description").as_deref(), Some("Reads: tide tables"));
        assert_eq!(text, "Do it.\n");
        let folded = "description: >-\n  One line\n  and the next.\nname: x\n";
        assert_eq!(field(folded, "description").as_deref(), Some("One line and the next."));
        assert_eq!(field("description: one\n  two\n", "description").as_deref(), Some("one two"));
        assert_eq!(field("description: a\u{1b}[31mred\n", "description").as_deref(), Some("a [31mred"));
        assert_eq!(split_head("no head\n---\n"), ("", "no head\n---\n"));
        assert_eq!(split_head("---\nname: x\n"), ("name: x\n", ""));
        assert_eq!(split_head("----\nx\n").0, "");
    }
}
