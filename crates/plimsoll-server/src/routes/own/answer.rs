//! Values of other crates in answers.
//!
//! Types of this crate list their fields in the OpenAPI document. A value of another crate is described as an object without
//! fields.

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
