//! The fields of a policy that users should change.

/// Fields with one purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FieldGroup {
    /// Paths of the fields, as in a policy file.
    pub fields: &'static [&'static str],
    /// Effect of the fields.
    pub purpose: &'static str,
}

const fn group(fields: &'static [&'static str], purpose: &'static str) -> FieldGroup {
    FieldGroup { fields, purpose }
}

/// The fields that are meant for users. All others are internal and may change or disappear in any version; the JSON Schema
/// says so in their descriptions.
pub const USER_FIELDS: [FieldGroup; 14] = [
    group(&["name"], "name of the policy in receipts"),
    group(
        &[
            "truncate.maxLines",
            "truncate.maxBytes",
            "truncate.toolLimits",
            "truncate.defaultLimit",
            "truncate.spill",
        ],
        "size of a tool output on arrival",
    ),
    group(
        &[
            "prune.enabled",
            "prune.protectTokens",
            "prune.minTokens",
            "prune.activeTurns",
            "prune.protectedTools",
            "prune.inputs",
        ],
        "which old outputs are cleared",
    ),
    group(&["thrift"], "whether the window is reduced under the line to save money"),
    group(&["names.enabled"], "whether names of removed content stay"),
    group(&["overflow.auto", "overflow.softShare"], "automatic compaction, and when a summary is prepared"),
    group(&["overflow.models", "overflow.defaultContext", "overflow.outputCap"], "limits of models"),
    group(
        &["compact.tailShare", "compact.tailMin", "compact.tailMax"],
        "what stays verbatim after a summary",
    ),
    group(
        &["compact.continueText", "compact.retries", "compact.maxSeconds", "compact.extractive"],
        "requests for summaries",
    ),
    group(&["contract.enabled"], "whether summaries are completed"),
    group(&["shed.enabled"], "whether the last rungs of the ladder are used"),
    group(&["pin.maxTokens", "pin.maxShare"], "room for pins"),
    group(&["recall.maxChars", "recall.maxShare"], "room for recalls"),
    group(
        &["fork.charBudget", "fork.childShare", "fork.historyShare"],
        "size of what a child session inherits",
    ),
];

/// Adds a note to the descriptions of all other fields.
#[cfg(feature = "schema")]
pub(super) fn mark_internal(schema: &mut serde_json::Value) {
    use serde_json::Value;

    let is_users = |path: &str| USER_FIELDS.iter().any(|group| group.fields.contains(&path));
    let mark = |field: &mut Value| {
        let text = field.get("description").and_then(Value::as_str).unwrap_or_default();
        let text = format!("{text} {INTERNAL}").trim_start().to_owned();
        if let Some(field) = field.as_object_mut() {
            field.insert("description".into(), text.into());
        }
    };
    let definition =
        |section: &Value| section.get("$ref")?.as_str()?.strip_prefix("#/$defs/").map(str::to_owned);
    let sections: Vec<(String, Option<String>)> = schema
        .get("properties")
        .and_then(Value::as_object)
        .map(|sections| sections.iter().map(|(name, section)| (name.clone(), definition(section))).collect())
        .unwrap_or_default();
    for (name, definition) in sections {
        let path = |field: &str| format!("{name}.{field}");
        let fields = definition.and_then(|definition| {
            schema.pointer_mut(&format!("/$defs/{definition}/properties")).and_then(Value::as_object_mut)
        });
        let mut is_section_users = is_users(&name);
        for (field, described) in fields.into_iter().flatten() {
            match is_users(&path(field)) {
                true => is_section_users = true,
                false => mark(described),
            }
        }
        if let Some(section) =
            schema.pointer_mut(&format!("/properties/{name}")).filter(|_| !is_section_users)
        {
            mark(section);
        }
    }
}

/// Note in the description of an internal field.
#[cfg(feature = "schema")]
const INTERNAL: &str = "Internal: may change.";
