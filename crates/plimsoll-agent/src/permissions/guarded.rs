//! Files that decide what is run or what agents are told later, which a rule for all files does not open.
//!
//! A hook of git, a setting of an editor or of an agent's own configuration runs outside of any sandbox the next time its
//! program does. A rule that allows `write` for the work was not written with these in mind: a change of them is asked about every time,
//! unless a rule names the file or its folder.

use std::path::{Component, Path};

/// Folders, wherever they lie.
const FOLDERS: [&str; 26] = [
    ".git",
    ".plimsoll",
    ".opencode",
    ".claude",
    ".agents",
    ".codex",
    ".cursor",
    ".gemini",
    ".husky",
    ".idea",
    ".vscode",
    ".devcontainer",
    ".amazonq",
    ".augment",
    ".clinerules",
    ".continue",
    ".githooks",
    ".hg",
    ".jj",
    ".junie",
    ".kiro",
    ".roo",
    ".trae",
    ".windsurf",
    ".zed",
    ".direnv",
];

/// Files, wherever they lie.
const FILES: [&str; 37] = [
    "plimsoll.toml",
    "opencode.json",
    "opencode.jsonc",
    "AGENTS.md",
    "CLAUDE.md",
    "CLAUDE.local.md",
    "GEMINI.md",
    ".mcp.json",
    ".envrc",
    ".gitmodules",
    ".gitattributes",
    ".lefthook.yml",
    ".pre-commit-config.yaml",
    ".pre-commit-config.yml",
    ".lefthook.yaml",
    ".lefthook.toml",
    ".lefthook.json",
    ".lefthook-local.yml",
    "lefthook.yml",
    "lefthook.yaml",
    "lefthook.toml",
    "lefthook.json",
    "lefthook-local.yml",
    "AGENTS.override.md",
    ".cursorrules",
    ".windsurfrules",
    ".roorules",
    ".aider.conf.yml",
    "copilot-instructions.md",
    ".devcontainer.json",
    ".mise.toml",
    "mise.toml",
    ".exrc",
    ".nvimrc",
    ".nvim.lua",
    ".dir-locals.el",
    ".gdbinit",
];

/// The name in a path that is guarded, if one is. Capitals make no difference: on some disks they make none either.
pub(super) fn guarded_name(path: &Path) -> Option<&'static str> {
    let is = |part: Component<'_>, name: &str| part.as_os_str().eq_ignore_ascii_case(name);
    let last = path.components().next_back()?;
    let in_folder = || path.components().find_map(|part| FOLDERS.into_iter().find(|name| is(part, name)));
    FILES.into_iter().find(|name| is(last, name)).or_else(in_folder)
}

/// Whether a pattern names what is guarded in a path, and not merely fits it: `.git/*` and `docs/AGENTS.md` do, `*` and
/// `docs/*` do not.
pub(super) fn names(pattern: &str, guarded: &str) -> bool {
    pattern.split('/').any(|part| part.eq_ignore_ascii_case(guarded))
}

/// Whether a pattern names a place or something in it: what stands before its first star must lead there.
pub(super) fn names_place(pattern: &str, place: &Path, project: &Path) -> bool {
    let plain = &pattern[..pattern.find(['*', '?']).unwrap_or(pattern.len())];
    project.join(plain).starts_with(place)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{guarded_name, names};

    #[test]
    fn what_is_guarded_is_known_wherever_it_lies() {
        for (path, name) in [
            ("/project/.git/hooks/pre-commit", Some(".git")),
            ("/project/.GIT/config", Some(".git")),
            ("/project/.git", Some(".git")),
            ("/project/deep/module/.git/config", Some(".git")),
            ("/project/.plimsoll/skills/x/SKILL.md", Some(".plimsoll")),
            ("/project/.opencode/agent/x.md", Some(".opencode")),
            ("/project/plimsoll.toml", Some("plimsoll.toml")),
            ("/project/sub/opencode.jsonc", Some("opencode.jsonc")),
            ("/project/docs/agents.md", Some("AGENTS.md")),
            ("/project/.vscode/tasks.json", Some(".vscode")),
            ("/project/.zed/tasks.json", Some(".zed")),
            ("/project/lefthook.yml", Some("lefthook.yml")),
            ("/project/AGENTS.override.md", Some("AGENTS.override.md")),
            ("/project/.cursorrules", Some(".cursorrules")),
            ("/project/.github/copilot-instructions.md", Some("copilot-instructions.md")),
            ("/project/.gitignore", None),
            ("/project/.github/workflows/ci.yml", None),
            ("/project/plimsoll.toml.bak", None),
            ("/project/src/git/hooks.rs", None),
        ] {
            assert_eq!(guarded_name(Path::new(path)), name, "{path}");
        }
    }

    #[test]
    fn a_pattern_names_it_by_its_own_name_alone() {
        for pattern in [".git/*", "*/.git/hooks/*", "/project/.git/config", ".git"] {
            assert!(names(pattern, ".git"), "{pattern}");
        }
        for pattern in ["*", "?git/*", ".g*/*", "/project/*", ".gitignore", ""] {
            assert!(!names(pattern, ".git"), "{pattern}");
        }
    }
}
