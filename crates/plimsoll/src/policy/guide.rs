//! The token management guide's `TokenManagement` section of an `appsettings.json`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::{PolicyError, PolicySpec, PruneOrder};
use crate::chars::Chars;
use crate::tokens::Tokens;

/// The section, key by key.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
pub(super) struct TokenManagement {
    chars_per_token: Option<u64>,
    default_context_window: Option<u64>,
    default_max_output_tokens: Option<u64>,
    max_output_lines: Option<u64>,
    max_output_bytes: Option<u64>,
    max_line_length: Option<u64>,
    prune_protect_tokens: Option<u64>,
    prune_minimum_tokens: Option<u64>,
    prune_output_retain_chars: Option<u64>,
    compaction_threshold: Option<f64>,
    compaction_target_percent: Option<u64>,
    enable_disk_spillover: Option<bool>,
    spill_directory: Option<String>,
    tool_output_limits: Option<BTreeMap<String, u64>>,
}

/// Applies the section to `spec`.
pub(super) fn apply(spec: &mut PolicySpec, section: Value) -> Result<(), PolicyError> {
    let section: TokenManagement =
        serde_path_to_error::deserialize(section).map_err(|error| PolicyError::Field {
            field: format!("TokenManagement.{}", error.path()),
            why: error.inner().to_string(),
        })?;
    set(&mut spec.count.chars_per_token, section.chars_per_token);
    set(&mut spec.overflow.default_context, section.default_context_window.map(Tokens));
    if let Some(output) = section.default_max_output_tokens.map(Tokens) {
        spec.overflow.default_output = output;
        // The guide prunes if no more than the room for an answer is left.
        if spec.prune.gate_headroom.is_some() {
            spec.prune.gate_headroom = Some(output);
        }
    }
    set(&mut spec.truncate.max_lines, section.max_output_lines);
    set(&mut spec.truncate.max_bytes, section.max_output_bytes);
    set(&mut spec.truncate.max_line_chars, section.max_line_length.map(Chars));
    set(&mut spec.prune.protect_tokens, section.prune_protect_tokens.map(Tokens));
    // In the guide, pruning stops at the minimum. Elsewhere, it must free at least the minimum.
    match (spec.prune.order, section.prune_minimum_tokens.map(Tokens)) {
        (PruneOrder::OldestFirst, Some(minimum)) => spec.prune.stop_after_tokens = Some(minimum),
        (PruneOrder::NewestFirst, Some(minimum)) => spec.prune.min_tokens = minimum,
        (_, None) => {}
    }
    set(&mut spec.prune.retain_chars, section.prune_output_retain_chars.map(Chars));
    set(&mut spec.overflow.share, section.compaction_threshold);
    set(&mut spec.compact.target_percent, section.compaction_target_percent);
    set(&mut spec.truncate.spill, section.enable_disk_spillover);
    set(&mut spec.truncate.spill_directory, section.spill_directory);
    for (tool, limit) in section.tool_output_limits.unwrap_or_default() {
        if tool == "default" {
            spec.truncate.default_limit = Chars(limit);
        } else {
            spec.truncate.tool_limits.insert(tool, Chars(limit));
        }
    }
    Ok(())
}

fn set<T>(field: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *field = value;
    }
}
