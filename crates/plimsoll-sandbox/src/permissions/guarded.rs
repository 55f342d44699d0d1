//! Files that decide what programs run or agents read later. A rule for all files does not open them.
//!
//! A git hook, an editor setting or an agent's own configuration runs outside any sandbox the next time its program
//! starts. A rule that allows `write` was not written with these in mind, so the user is asked about each change,
//! unless a rule names the file or its directory.

use std::path::{Component, Path};

use super::matches;

/// Directories, in any directory. An entry with a slash is a directory in another.
const DIRECTORIES: &[&str] = &[
    // Version control and its hooks.
    ".git",
    ".githooks",
    ".git-hooks",
    ".hg",
    ".husky",
    ".jj",
    ".lefthook",
    ".lefthook-local",
    // Agents.
    ".agents",
    ".amazonq",
    ".augment",
    ".claude",
    ".clinerules",
    ".codex",
    ".continue",
    ".cursor",
    ".factory",
    ".gemini",
    ".goose",
    ".junie",
    ".kilocode",
    ".kiro",
    ".opencode",
    ".openhands",
    ".plimsoll",
    ".qwen",
    ".roo",
    ".trae",
    ".windsurf",
    // Editors, and what sets up a shell that enters a directory.
    ".devcontainer",
    ".devenv",
    ".direnv",
    ".helix",
    ".idea",
    ".mise",
    ".run",
    ".vscode",
    ".zed",
    ".config/mise",
];

/// Files, in any directory. A star matches any characters; a slash is as for directories.
const FILES: &[&str] = &[
    // Agents.
    "plimsoll.toml",
    "opencode.json",
    "opencode.jsonc",
    "AGENT.md",
    "AGENTS.md",
    "AGENTS.override.md",
    "CLAUDE.md",
    "CLAUDE.local.md",
    "CRUSH.md",
    "GEMINI.md",
    "QWEN.md",
    "WARP.md",
    "copilot-instructions.md",
    ".aider.conf.yml",
    ".crush.json",
    "crush.json",
    ".cursorrules",
    ".goosehints",
    ".kilocodemodes",
    ".mcp.json",
    ".roomodes",
    ".roorules*",
    ".windsurfrules",
    // Hooks of version control.
    // A directory with this file and two others is a repository, whatever its name, and its `config` runs programs.
    "HEAD",
    ".gitattributes",
    ".gitmodules",
    ".huskyrc*",
    "lefthook.*",
    ".lefthook.*",
    "lefthook-local.*",
    ".lefthook-local.*",
    ".lintstagedrc*",
    "lint-staged.config.*",
    ".overcommit.yml",
    ".pre-commit-config.*",
    ".pre-commit-hooks.*",
    "prek.toml",
    ".simple-git-hooks.*",
    "simple-git-hooks.*",
    // Files that a shell loads when it enters a directory.
    ".autoenv*",
    ".envrc*",
    ".mise.toml",
    ".mise.*.toml",
    "mise.toml",
    "mise.*.toml",
    "mise/config.toml",
    "mise/config.*.toml",
    ".prototools",
    ".rtx.toml",
    ".rvmrc",
    // A version can be a path in the project, whose programs are then run by their names.
    ".tool-versions",
    "devbox.json",
    "devenv.nix",
    "devenv.local.nix",
    "devenv.yaml",
    // Editors and debuggers.
    "*.code-workspace",
    ".devcontainer.json",
    ".dir-locals*.el",
    ".exrc",
    ".gdbinit",
    ".lldbinit",
    ".lvimrc",
    ".nvim.lua",
    ".nvimrc",
    ".vimrc",
];

/// Returns the entry of the tables that guards a path. Case is ignored, as some file systems do.
pub(super) fn guarded_name(path: &Path) -> Option<&'static str> {
    let parts: Vec<String> = path.components().map(lower_case).collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let is_file = |entry: &&&str| (0..parts.len()).any(|from| fits(entry, &parts[from..]));
    FILES.iter().find(is_file).or_else(|| DIRECTORIES.iter().find(|entry| is_at(entry, &parts))).copied()
}

/// Returns the git repository that a path is in, if it is below the project and not named `.git`: a bare one, or one
/// that a `.git` file points to.
pub(super) fn repository_of<'a>(path: &'a Path, project: &Path) -> Option<&'a Path> {
    let below = path.ancestors().skip(1).take_while(|directory| directory.starts_with(project));
    let is_repository = |directory: &&Path| {
        let has = |name: &str| directory.join(name).symlink_metadata().is_ok();
        has("HEAD") && (has("commondir") || (has("objects") && has("refs")))
    };
    below.into_iter().find(is_repository)
}

fn lower_case(part: Component<'_>) -> String {
    part.as_os_str().to_string_lossy().to_ascii_lowercase()
}

/// Returns whether an entry matches exactly these path components, which are in lower case.
fn fits(entry: &str, parts: &[&str]) -> bool {
    let names: Vec<String> = entry.split('/').map(str::to_ascii_lowercase).collect();
    names.len() == parts.len() && names.iter().zip(parts).all(|(name, part)| matches(name, part))
}

/// Returns whether an entry matches anywhere in a path.
fn is_at(entry: &str, parts: &[&str]) -> bool {
    parts.windows(entry.split('/').count()).any(|parts| fits(entry, parts))
}

/// Returns whether a pattern names the guarded part of a path instead of merely matching it: `.git/*` and
/// `docs/AGENTS.md` do, `*` and `docs/*` do not. `guarded` is the entry that guards the path.
pub(super) fn names(pattern: &str, guarded: &str) -> bool {
    let pattern = pattern.to_ascii_lowercase();
    // A component with a star is a pattern, not a name.
    let parts: Vec<&str> =
        pattern.split('/').map(|part| if part.contains(['*', '?']) { "" } else { part }).collect();
    is_at(guarded, &parts)
}

/// Returns whether a pattern names a place or something in it: its text before the first star must lead there.
pub(super) fn names_place(pattern: &str, place: &Path, project: &Path) -> bool {
    let plain = &pattern[..pattern.find(['*', '?']).unwrap_or(pattern.len())];
    project.join(plain).starts_with(place)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{guarded_name, names};

    #[test]
    fn guarded_files_are_recognised_at_any_depth() {
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
            ("/project/AGENTS.override.md", Some("AGENTS.override.md")),
            ("/project/.cursorrules", Some(".cursorrules")),
            ("/project/.roorules-code", Some(".roorules*")),
            ("/project/.github/copilot-instructions.md", Some("copilot-instructions.md")),
            ("/project/.vscode/tasks.json", Some(".vscode")),
            ("/project/app.code-workspace", Some("*.code-workspace")),
            ("/project/.helix/languages.toml", Some(".helix")),
            ("/project/.zed/tasks.json", Some(".zed")),
            ("/project/.dir-locals-2.el", Some(".dir-locals*.el")),
            ("/project/lefthook.yml", Some("lefthook.*")),
            ("/project/.lefthook.jsonc", Some(".lefthook.*")),
            ("/project/lefthook-local.yml", Some("lefthook-local.*")),
            ("/project/LEFTHOOK-LOCAL.TOML", Some("lefthook-local.*")),
            ("/project/.lefthook-local.json", Some(".lefthook-local.*")),
            ("/project/.config/lefthook.yaml", Some("lefthook.*")),
            ("/project/.lefthook/pre-commit/check.sh", Some(".lefthook")),
            ("/project/.lefthook-local/pre-push/x", Some(".lefthook-local")),
            ("/project/.pre-commit-config.yaml", Some(".pre-commit-config.*")),
            ("/project/.pre-commit-hooks.yaml", Some(".pre-commit-hooks.*")),
            ("/project/prek.toml", Some("prek.toml")),
            ("/project/.overcommit.yml", Some(".overcommit.yml")),
            ("/project/.git-hooks/pre_commit/x.rb", Some(".git-hooks")),
            ("/project/.huskyrc.json", Some(".huskyrc*")),
            ("/project/.lintstagedrc.mjs", Some(".lintstagedrc*")),
            ("/project/.simple-git-hooks.cjs", Some(".simple-git-hooks.*")),
            ("/project/mise.toml", Some("mise.toml")),
            ("/project/mise.local.toml", Some("mise.*.toml")),
            ("/project/mise.test.local.toml", Some("mise.*.toml")),
            ("/project/.mise.toml", Some(".mise.toml")),
            ("/project/.mise.local.toml", Some(".mise.*.toml")),
            ("/project/.mise/config.toml", Some(".mise")),
            ("/project/.mise/tasks/build", Some(".mise")),
            ("/project/.config/mise.toml", Some("mise.toml")),
            ("/project/.config/mise/config.toml", Some("mise/config.toml")),
            ("/project/.config/mise/conf.d/x.toml", Some(".config/mise")),
            ("/project/sub/mise/config.local.toml", Some("mise/config.*.toml")),
            ("/project/.tool-versions", Some(".tool-versions")),
            ("/project/.envrc", Some(".envrc*")),
            ("/project/.envrc.local", Some(".envrc*")),
            ("/project/.autoenv.zsh", Some(".autoenv*")),
            ("/project/devenv.nix", Some("devenv.nix")),
            ("/project/docs/HEAD", Some("HEAD")),
            ("/project/.gitignore", None),
            ("/project/.github/workflows/ci.yml", None),
            ("/project/plimsoll.toml.bak", None),
            ("/project/src/git/hooks.rs", None),
            ("/project/mise/main.rs", None),
            ("/project/.config/misery/x", None),
            ("/project/promise.toml", None),
            ("/project/lefthook/main.go", None),
            ("/project/justfile", None),
            ("/project/Makefile", None),
            ("/project/package.json", None),
        ] {
            assert_eq!(guarded_name(Path::new(path)), name, "{path}");
        }
    }

    #[test]
    fn a_pattern_names_a_guarded_file_only_by_its_name() {
        for (pattern, guarded) in [
            (".git/*", ".git"),
            ("*/.git/hooks/*", ".git"),
            ("/project/.git/config", ".git"),
            (".git", ".git"),
            ("lefthook-local.yml", "lefthook-local.*"),
            ("sub/Mise.Local.toml", "mise.*.toml"),
            (".config/mise/*", ".config/mise"),
            ("*/mise/config.toml", "mise/config.toml"),
        ] {
            assert!(names(pattern, guarded), "{pattern}");
        }
        for pattern in
            ["*", "?git/*", ".g*/*", "/project/*", ".gitignore", "", "mise.*", "mise.*.toml", ".config/*"]
        {
            for guarded in [".git", "mise.*.toml", ".config/mise"] {
                assert!(!names(pattern, guarded), "{pattern} {guarded}");
            }
        }
    }
}
