//! Rules for unknown tools are reported, and those for servers' tools are not.

use plimsoll_agent::{idle_rules, require_tool};

use crate::agents::Place;

const SERVERS: &str = "[mcp.files]\ncommand = [\"x\"]\n[mcp.off]\ncommand = [\"x\"]\nenabled = false\n";

#[test]
fn a_rule_for_an_unknown_tool_is_reported_with_a_similar_name() {
    let place = Place::new();
    let rules = "[permissions]\n\"*\" = \"ask\"\nbahs = \"deny\"\nbash = \"allow\"\nchop = \"deny\"\nflies_read = \"deny\"\n\
                 external_directory = \"deny\"\n\"background_*\" = \"ask\"\n\"files_*\" = \"allow\"\n\"off_x\" = \"deny\"\n\
                 \"github_*\" = \"allow\"\n\"fi*\" = \"ask\"\nlist = \"ask\"\n\
                 [permissions.webfetsch]\n\"*\" = \"deny\"\n\"https://a/*\" = \"allow\"\n\
                 [agents.review]\ntools = { wirte = false, write = true }\npermission = { eddit = \"deny\" }\n";
    place.write(".config/plimsoll/config.toml", &format!("{rules}{SERVERS}"));
    let output: Vec<String> = idle_rules(&place.config(&place.project))
        .iter()
        .map(|rule| rule.to_string().replace(place.home.to_str().unwrap(), "~"))
        .collect();
    insta::assert_snapshot!(output.join("\n"), @r"
    ~/.config/plimsoll/config.toml:3: the rule for unknown tool `bahs` (`deny`) is ignored; did you mean `bash`?
    ~/.config/plimsoll/config.toml:5: the rule for unknown tool `chop` (`deny`) is ignored
    ~/.config/plimsoll/config.toml:6: the rule for unknown tool `flies_read` (`deny`) is ignored; did you mean `files_read`?
    ~/.config/plimsoll/config.toml:15: the rule for unknown tool `webfetsch` (`deny`) is ignored; did you mean `webfetch`?
    ~/.config/plimsoll/config.toml:19: the rule for unknown tool `eddit` (`deny`) is ignored; did you mean `edit`?
    ~/.config/plimsoll/config.toml:18: the rule for unknown tool `wirte` (switched off) is ignored; did you mean `write`?
    ");
}

#[test]
fn a_flag_for_an_unknown_tool_is_rejected() {
    let place = Place::new();
    place.write(".config/plimsoll/config.toml", SERVERS);
    let run = place.config(&place.project);
    for tool in ["bash", "*", "background_task", "external_directory", "files_read", "files_*", "f*", "off_*"]
    {
        assert_eq!(require_tool(tool, &run), Ok(()), "{tool}");
    }
    let nearest = |tool: &str| require_tool(tool, &run).unwrap_err().nearest;
    assert_eq!(nearest("bsah").as_deref(), Some("bash"));
    assert_eq!(nearest("fiels_read").as_deref(), Some("files_read"));
    assert_eq!(nearest("github_*"), None);
    assert_eq!(
        require_tool("Edit", &run).unwrap_err().to_string(),
        "unknown tool `Edit`; did you mean `edit`?"
    );
}
