//! Prepares the tools of servers for requests.
//!
//! Names, descriptions and schemas come from outside and are part of every request of the conversation. A provider
//! rejects a whole request because of one invalid name or schema, so such tools are left out here with a reason. Text
//! of a server is bounded and names its source.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_providers::ToolSpec;
use serde_json::{Map, Value, json};

use crate::untrusted::clean;

/// Maximum length of a tool name that all providers accept.
const LONGEST_NAME: usize = 64;
/// Maximum length of a tool's description, in characters.
const LONGEST_DESCRIPTION: usize = 2_000;
/// Maximum length of a field's description, in characters.
const LONGEST_FIELD_TEXT: usize = 500;
/// Maximum size of a schema, in bytes of JSON.
const LARGEST_SCHEMA: usize = 16 << 10;
/// Maximum nesting depth of a schema.
const DEEPEST_SCHEMA: usize = 32;
/// Maximum number of declared tools of all servers. OpenAI accepts 128 in total, including the agent's own.
pub(super) const MAX_TOOLS: usize = 100;

/// Request that a call of a tool makes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A call of the tool.
    #[default]
    Call,
    /// A page of the list of resources.
    ListResources,
    /// The content of a resource.
    ReadResource,
}

/// A tool as listed by a server.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ListedTool {
    /// The server's name in the configuration.
    pub(super) server: String,
    /// The tool's name on the server, by which it is called.
    pub(super) tool: String,
    pub(super) description: String,
    pub(super) schema: Value,
    pub(super) purpose: Purpose,
}

/// A tool that can be declared.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DeclaredTool {
    pub(super) server: String,
    pub(super) tool: String,
    pub(super) spec: ToolSpec,
    pub(super) purpose: Purpose,
}

/// A tool that cannot be declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OmittedTool {
    pub(super) server: String,
    pub(super) tool: String,
    pub(super) reason: String,
}

/// Declares the tools of all servers that the agent enables, under unique names, in an order that does not depend on
/// the servers, because the prompt cache begins with the tools.
pub(super) fn declare(
    listed: Vec<ListedTool>,
    taken: &[&str],
    is_wanted: impl Fn(&str) -> bool,
) -> (Vec<DeclaredTool>, Vec<OmittedTool>) {
    let (mut declared, mut omitted) = (Vec::new(), Vec::new());
    let mut times: BTreeMap<String, usize> = taken.iter().map(|name| ((*name).to_owned(), 1)).collect();
    // A server may list a tool twice; the first counts.
    let mut seen = BTreeSet::new();
    let mut listed: Vec<ListedTool> =
        listed.into_iter().filter(|tool| seen.insert((tool.server.clone(), tool.tool.clone()))).collect();
    listed.sort_by(|a, b| (&a.server, &a.tool).cmp(&(&b.server, &b.tool)));
    for tool in &listed {
        *times.entry(plain_name(&tool.server, &tool.tool)).or_default() += 1;
    }
    // Every tool that shares a name is marked, not only the later ones: the order may change. Marked names are assigned
    // first, so that another tool cannot claim one by listing it as its own name.
    let is_shared = |plain: &str| times.get(plain).is_some_and(|times| *times > 1);
    let mut used: BTreeSet<String> = taken.iter().map(|name| (*name).to_owned()).collect();
    let mut names = vec![String::new(); listed.len()];
    for shared in [true, false] {
        for (tool, name) in listed.iter().zip(&mut names) {
            let plain = plain_name(&tool.server, &tool.tool);
            if is_shared(&plain) == shared {
                let plain = (!shared).then(|| plain.clone());
                let marked = (0..).map(|salt| marked_name(&tool.server, &tool.tool, salt));
                *name = plain.into_iter().chain(marked).find(|name| !used.contains(name)).unwrap_or_default();
                used.insert(name.clone());
            }
        }
    }
    for (tool, name) in listed.into_iter().zip(names) {
        if !is_wanted(&name) {
            continue;
        }
        let omit = |tool: ListedTool, reason: String| OmittedTool {
            server: tool.server,
            tool: shown_name(&tool.tool),
            reason,
        };
        if declared.len() == MAX_TOOLS {
            omitted.push(omit(tool, format!("more than {MAX_TOOLS} tools of MCP servers")));
            continue;
        }
        match checked_schema(&tool.schema) {
            Ok(schema) => {
                let description = described(&tool);
                let spec = ToolSpec { name, description, schema };
                let ListedTool { server, tool, purpose, .. } = tool;
                declared.push(DeclaredTool { server, tool, spec, purpose });
            }
            Err(reason) => omitted.push(omit(tool, reason)),
        }
    }
    (declared, omitted)
}

/// Returns the prefix of a server's tools.
pub(crate) fn tool_prefix(server: &str) -> String {
    let name = plain_text(&format!("{server}_"));
    name[..name.len().min(LONGEST_NAME / 2)].to_owned()
}

fn plain_text(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' }).collect()
}

/// Returns `SERVER_TOOL` in characters that all providers accept.
fn plain_name(server: &str, tool: &str) -> String {
    let name = plain_text(&format!("{server}_{tool}"));
    if name.len() > LONGEST_NAME { marked_name(server, tool, 0) } else { name }
}

/// Returns a name with a hash of server and tool, which is stable across runs. A different `salt` changes the hash, in
/// case a server chooses tool names whose hashes collide.
fn marked_name(server: &str, tool: &str, salt: usize) -> String {
    let name = plain_text(&format!("{server}_{tool}"));
    let salt = if salt == 0 { String::new() } else { format!("\0{salt}") };
    let hash = blake3::hash(format!("{server}\0{tool}{salt}").as_bytes()).to_hex();
    let mark = &hash.as_str()[..8];
    // The name is ASCII here, so any byte is a boundary.
    let end = name.len().min(LONGEST_NAME - mark.len() - 1);
    format!("{}_{mark}", &name[..end])
}

/// Returns the description for the model.
fn described(tool: &ListedTool) -> String {
    let text = clean(&tool.description, LONGEST_DESCRIPTION);
    let text = if text.is_empty() { "no description".to_owned() } else { text };
    format!("From the MCP server `{}`: {text}", shown_name(&tool.server))
}

/// Returns a name for messages.
pub(super) fn shown_name(name: &str) -> String {
    clean(name, 80).replace('`', "'").replace('\n', " ")
}

/// Returns a schema that providers accept, or the reason why there is none.
fn checked_schema(schema: &Value) -> Result<Value, String> {
    let Value::Object(fields) = schema else {
        return Err("its input schema is not an object".to_owned());
    };
    let mut fields = fields.clone();
    if fields.get("type").is_some_and(|kind| *kind != json!("object")) {
        return Err(format!("its input is of type {}, not an object", fields["type"]));
    }
    // Providers reject alternatives at the top level. The server validates its input itself, so the model only gets
    // less information.
    for key in ["$schema", "$id", "anyOf", "oneOf", "allOf", "not", "enum", "if", "then", "else"] {
        fields.remove(key);
    }
    fields.insert("type".to_owned(), "object".into());
    match fields.get("properties") {
        None | Some(Value::Null) => drop(fields.insert("properties".to_owned(), Value::Object(Map::new()))),
        Some(Value::Object(properties)) => {
            let is_name = |name: &String| {
                !name.is_empty()
                    && name.len() <= LONGEST_NAME
                    && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))
            };
            if let Some(bad) = properties.keys().find(|name| !is_name(name)) {
                return Err(format!("its input has a field `{}`, which providers reject", shown_name(bad)));
            }
        }
        Some(_) => return Err("the `properties` of its input schema are not an object".to_owned()),
    }
    let mut schema = Value::Object(fields);
    if !tidy(&mut schema, DEEPEST_SCHEMA, true) {
        return Err(format!("its input schema is nested deeper than {DEEPEST_SCHEMA} levels"));
    }
    if size(&schema) > LARGEST_SCHEMA {
        // Names and types of fields are more important than their descriptions.
        tidy(&mut schema, DEEPEST_SCHEMA, false);
    }
    let size = size(&schema);
    if size > LARGEST_SCHEMA {
        return Err(format!("its input schema has {size} bytes; the limit is {LARGEST_SCHEMA}"));
    }
    Ok(schema)
}

fn size(schema: &Value) -> usize {
    serde_json::to_vec(schema).map_or(usize::MAX, |bytes| bytes.len())
}

/// Cleans all texts of a schema, and removes descriptions if `explains` is false. Returns whether the schema is nested
/// no deeper than `depth`.
fn tidy(value: &mut Value, depth: usize, explains: bool) -> bool {
    if depth == 0 {
        return false;
    }
    match value {
        Value::String(text) => {
            *text = clean(text, LONGEST_FIELD_TEXT);
            true
        }
        Value::Array(items) => items.iter_mut().all(|item| tidy(item, depth - 1, explains)),
        Value::Object(fields) => {
            // A field named `description` has a schema, the keyword has a text.
            fields.retain(|name, value| {
                let is_comment = name == "$comment";
                let is_text =
                    ["description", "title", "examples"].contains(&name.as_str()) && !value.is_object();
                !is_comment && (explains || !is_text)
            });
            fields.values_mut().all(|value| tidy(value, depth - 1, explains))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{ListedTool, MAX_TOOLS, Purpose, declare};

    fn listed(server: &str, tool: &str, description: &str, schema: Value) -> ListedTool {
        ListedTool {
            server: server.into(),
            tool: tool.into(),
            description: description.into(),
            schema,
            purpose: Purpose::Call,
        }
    }

    fn plain(server: &str, tool: &str) -> ListedTool {
        listed(server, tool, "", json!({"type": "object"}))
    }

    fn names(tools: Vec<ListedTool>, taken: &[&str]) -> Vec<String> {
        declare(tools, taken, |_| true).0.into_iter().map(|tool| tool.spec.name).collect()
    }

    #[test]
    fn tool_names_use_characters_that_providers_accept() {
        let long = "x".repeat(100);
        let found = names(vec![plain("my server", "get/weather.now"), plain("é", &long)], &[]);
        assert_eq!(found[0], "my_server_get_weather_now");
        assert!(found[1].len() == 64 && found[1].starts_with("__xxx"), "{found:?}");
        assert_eq!(found, names(vec![plain("é", &long), plain("my server", "get/weather.now")], &[]));
    }

    #[test]
    fn duplicate_tool_names_are_made_unique() {
        let found =
            names(vec![plain("a", "b_c"), plain("a_b", "c"), plain("a", "d.e"), plain("a", "d/e")], &["a_x"]);
        let unique: std::collections::BTreeSet<_> = found.iter().collect();
        assert_eq!(unique.len(), 4, "{found:?}");
        assert!(found.iter().all(|name| name.starts_with("a_") && name.len() > 9), "{found:?}");
        // A server cannot replace the agent's own tool or use its rule.
        let own = names(vec![plain("web", "fetch")], &["web_fetch"]);
        assert!(own[0] != "web_fetch" && own[0].starts_with("web_fetch_"), "{own:?}");
        assert_eq!(names(vec![plain("a", "b"), plain("a", "b")], &[]), ["a_b"]);
    }

    #[test]
    fn a_tool_named_like_the_marked_name_of_another_gets_a_unique_name() {
        let shared = || vec![plain("s", "a.b"), plain("s", "a/b")];
        let marked = names(shared(), &[]);
        let mut listed = shared();
        // Named exactly like the declared names of others, by the same server and by one with a shorter name.
        listed.extend(marked.iter().map(|name| plain("s", &name[2..])));
        listed.push(plain("", &marked[0][1..]));
        let found = names(listed.clone(), &[]);
        let unique: std::collections::BTreeSet<_> = found.iter().collect();
        assert_eq!(unique.len(), 5, "{found:?}");
        assert!(marked.iter().all(|name| found.contains(name)), "{marked:?} {found:?}");
        // Long names are marked too, even if they match one of the agent's own.
        let long = "x".repeat(100);
        let own = names(vec![plain("s", &long)], &[]);
        let beside = names(vec![plain("s", &long), plain("s", &own[0][2..])], &[&own[0]]);
        let unique: std::collections::BTreeSet<_> = beside.iter().chain(&own).collect();
        assert_eq!(unique.len(), 3, "{beside:?}");
        assert!(beside.iter().all(|name| name.len() <= 64), "{beside:?}");
        listed.reverse();
        assert_eq!(found, names(listed, &[]), "the order of the list does not matter");
    }

    #[test]
    fn descriptions_are_cleaned_capped_and_set_apart() {
        let text = format!("Adds.\u{1b}[2J\u{0}\u{202e}\u{e0041} {}", "more ".repeat(1_000));
        let (found, _) = declare(vec![listed("s", "t", &text, json!({}))], &[], |_| true);
        let description = &found[0].spec.description;
        assert!(description.starts_with("From the MCP server `s`: Adds.[2J more"), "{description}");
        assert!(description.chars().count() < 2_100 && description.ends_with("[…]"));
    }

    #[test]
    fn schemas_that_providers_refuse_are_mended_or_left_out() {
        let deep =
            (0..50).fold(json!({"type": "string"}), |inner, _| json!({"type": "array", "items": inner}));
        let wide: Value = (0..400)
            .map(|n| (format!("field_number_{n}"), json!({"type": "integer", "minimum": n})))
            .collect::<serde_json::Map<_, _>>()
            .into();
        for (schema, why) in [
            (json!("text"), "not an object"),
            (json!({"type": "string"}), "of type"),
            (json!({"type": "object", "properties": {"a b": {}}}), "`a b`"),
            (json!({"type": "object", "properties": []}), "not an object"),
            (json!({"type": "object", "properties": {"a": deep}}), "deeper"),
            (json!({"type": "object", "properties": wide}), "bytes"),
        ] {
            let (found, omitted) = declare(vec![listed("s", "t", "", schema.clone())], &[], |_| true);
            assert!(found.is_empty() && omitted[0].reason.contains(why), "{schema}: {omitted:?}");
        }
        let wordy: Value = (0..40)
            .map(|n| (format!("f{n}"), json!({"type": "string", "description": "words ".repeat(300)})))
            .collect::<serde_json::Map<_, _>>()
            .into();
        let schema = json!({
            "$schema": "x", "anyOf": [{"required": ["f1"]}], "properties": wordy,
            "required": ["f1"], "description": "all",
        });
        let (found, omitted) = declare(vec![listed("s", "t", "", schema)], &[], |_| true);
        assert!(omitted.is_empty(), "{omitted:?}");
        let spec = &found[0].spec.schema;
        assert_eq!((&spec["type"], spec.get("anyOf"), spec.get("$schema")), (&json!("object"), None, None));
        assert_eq!(spec["properties"]["f7"], json!({"type": "string"}), "words went before fields did");
        assert_eq!(spec["required"], json!(["f1"]));
        let named = json!({"properties": {"description": {"type": "string", "description": "\u{7}hi"}}});
        let (found, _) = declare(vec![listed("s", "t", "", named)], &[], |_| true);
        assert_eq!(found[0].spec.schema["properties"]["description"]["description"], "hi");
    }

    #[test]
    fn more_tools_than_fit_are_named_and_unwanted_ones_do_not_count() {
        let many = |server: &str| (0..80).map(|n| plain(server, &format!("t{n:02}"))).collect::<Vec<_>>();
        let all: Vec<_> = many("a").into_iter().chain(many("b")).collect();
        let (found, omitted) = declare(all.clone(), &[], |_| true);
        assert_eq!((found.len(), omitted.len()), (MAX_TOOLS, 60));
        let (found, omitted) = declare(all, &[], |name| !name.starts_with("a_"));
        assert_eq!((found.len(), omitted.len()), (80, 0));
    }
}
