//! Answers whose content belongs to other crates.
//!
//! Types of this crate state their fields in the document. A value of another crate is an object there: its fields are those of
//! its JSON elsewhere, such as in the output of the command.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;

/// A value of another crate that is an object in JSON.
#[derive(Serialize)]
#[serde(transparent)]
pub(super) struct Foreign<T>(pub(super) T);

impl<T> JsonSchema for Foreign<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Object".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object" })
    }
}

/// Wraps each value of a list.
pub(super) fn foreign<T>(values: Vec<T>) -> Vec<Foreign<T>> {
    values.into_iter().map(Foreign).collect()
}
