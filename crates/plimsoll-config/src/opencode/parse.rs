//! Parses JSON with comments and trailing commas, and records the lines of its keys.

use std::collections::BTreeMap;
use std::path::Path;

use jsonc_parser::ast::Value as Ast;
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde_json::{Map, Number, Value};

use crate::error::ConfigError;

/// Values of a file, and the line of every key by its path.
pub(crate) struct Parsed {
    pub(crate) values: Map<String, Value>,
    pub(crate) lines: BTreeMap<String, usize>,
}

/// Parses the text of a file. An empty one has no settings.
pub(crate) fn parse(text: &str, path: &Path) -> Result<Parsed, ConfigError> {
    let text = text.trim_start_matches('\u{feff}');
    // Exactly what editors and OpenCode's parser accept: other extensions of JSON5 would be read here and rejected
    // there.
    let options = ParseOptions {
        allow_comments: true,
        allow_loose_object_property_names: false,
        allow_trailing_commas: true,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    let wrong =
        |message: String, at| ConfigError::Syntax { path: path.to_owned(), at, language: "JSON", message };
    let ast = parse_to_ast(text, &CollectOptions::default(), &options).map_err(|error| {
        // Only the kind of error: the rest of the message quotes the line, which may contain a key.
        let at = Some((error.line_display(), error.column_display()));
        wrong(error.kind().to_string().to_lowercase(), at)
    })?;
    let starts = line_starts(text);
    let mut parsed = Parsed { values: Map::new(), lines: BTreeMap::new() };
    match ast.value {
        None => {}
        Some(Ast::Object(object)) => {
            let value = convert(Ast::Object(object), "", &starts, &mut parsed.lines);
            parsed.values = if let Value::Object(values) = value { values } else { Map::new() };
        }
        Some(_) => return Err(wrong("a configuration is an object".to_owned(), Some((1, 1)))),
    }
    Ok(parsed)
}

fn line_starts(text: &str) -> Vec<usize> {
    let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
    [0].into_iter().chain(breaks.map(|(at, _)| at + 1)).collect()
}

fn convert(ast: Ast<'_>, path: &str, starts: &[usize], lines: &mut BTreeMap<String, usize>) -> Value {
    match ast {
        Ast::StringLit(text) => text.value.into_owned().into(),
        Ast::NumberLit(number) => number.value.parse::<Number>().map_or(Value::Null, Value::Number),
        Ast::BooleanLit(on) => on.value.into(),
        Ast::NullKeyword(_) => Value::Null,
        Ast::Array(items) => {
            items.elements.into_iter().map(|item| convert(item, path, starts, lines)).collect()
        }
        Ast::Object(object) => {
            let mut fields = Map::new();
            for property in object.properties {
                let line = starts.partition_point(|start| *start <= property.name.range().start);
                let name = property.name.into_string();
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                lines.insert(path.clone(), line);
                // The last of duplicate keys counts, and so does its position in the order.
                fields.shift_remove(&name);
                fields.insert(name, convert(property.value, &path, starts, lines));
            }
            Value::Object(fields)
        }
    }
}
