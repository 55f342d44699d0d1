//! Definitions of routes, from which both the router and the OpenAPI document are made.

use std::sync::Arc;

use axum::routing::{MethodFilter, MethodRouter};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::app::App;
use crate::app::shape::VERSION;

type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// A route. The router and the document are both made from it, so they cannot differ.
pub(super) struct OwnRoute {
    method: Method,
    pub(super) path: &'static str,
    summary: &'static str,
    /// Query parameters in addition to `directory`.
    query: &'static [Parameter],
    body: Option<SchemaOf>,
    /// Whether an empty body counts as `{}`.
    is_body_optional: bool,
    /// Whether the response does not depend on the directory.
    is_global: bool,
    answer: Option<SchemaOf>,
    /// Whether the answer is plain text.
    is_text: bool,
    /// Adds the handler for a method.
    on: fn(MethodFilter) -> MethodRouter<Arc<App>>,
}

/// A query parameter.
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    pub(super) kind: ParameterKind,
}

pub(super) enum ParameterKind {
    /// Text that matches this regular expression.
    Text(&'static str),
    /// A number of tokens.
    Tokens,
}

const DIRECTORY: Parameter = Parameter {
    name: "directory",
    description: "Directory at or below the server's root [default: the root].",
    kind: ParameterKind::Text("^(/.*)?$"),
};

#[derive(Clone, Copy)]
enum Method {
    Get,
    Post,
    Delete,
}

impl Method {
    fn filter(self) -> MethodFilter {
        match self {
            Method::Get => MethodFilter::GET,
            Method::Post => MethodFilter::POST,
            Method::Delete => MethodFilter::DELETE,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Method::Get => "get",
            Method::Post => "post",
            Method::Delete => "delete",
        }
    }
}

/// A type with a schema in the OpenAPI document.
pub(super) trait Described: JsonSchema {
    fn schema(generator: &mut SchemaGenerator) -> Schema;
}

impl<T: JsonSchema> Described for T {
    fn schema(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<T>()
    }
}

impl OwnRoute {
    const fn new(
        method: Method,
        path: &'static str,
        summary: &'static str,
        on: fn(MethodFilter) -> MethodRouter<Arc<App>>,
    ) -> OwnRoute {
        OwnRoute {
            method,
            path,
            summary,
            query: &[],
            body: None,
            is_body_optional: false,
            is_global: false,
            answer: None,
            is_text: false,
            on,
        }
    }

    pub(super) const fn get(
        path: &'static str,
        summary: &'static str,
        on: fn(MethodFilter) -> MethodRouter<Arc<App>>,
    ) -> OwnRoute {
        OwnRoute::new(Method::Get, path, summary, on)
    }

    pub(super) const fn post(
        path: &'static str,
        summary: &'static str,
        on: fn(MethodFilter) -> MethodRouter<Arc<App>>,
    ) -> OwnRoute {
        OwnRoute::new(Method::Post, path, summary, on)
    }

    pub(super) const fn delete(
        path: &'static str,
        summary: &'static str,
        on: fn(MethodFilter) -> MethodRouter<Arc<App>>,
    ) -> OwnRoute {
        OwnRoute::new(Method::Delete, path, summary, on)
    }

    pub(super) const fn query(mut self, query: &'static [Parameter]) -> OwnRoute {
        self.query = query;
        self
    }

    pub(super) const fn body(mut self, body: SchemaOf) -> OwnRoute {
        self.body = Some(body);
        self
    }

    pub(super) const fn optional_body(mut self, body: SchemaOf) -> OwnRoute {
        (self.body, self.is_body_optional) = (Some(body), true);
        self
    }

    pub(super) const fn global(mut self) -> OwnRoute {
        self.is_global = true;
        self
    }

    pub(super) const fn answer(mut self, answer: SchemaOf) -> OwnRoute {
        self.answer = Some(answer);
        self
    }

    pub(super) const fn answer_text(mut self) -> OwnRoute {
        self.is_text = true;
        self
    }

    /// Returns the method for the `Allow` header.
    pub(super) fn method(&self) -> &'static str {
        match self.method {
            Method::Get => "GET",
            Method::Post => "POST",
            Method::Delete => "DELETE",
        }
    }

    pub(super) fn serve(&self) -> MethodRouter<Arc<App>> {
        (self.on)(self.method.filter())
    }

    fn describe(&self, generator: &mut SchemaGenerator) -> Value {
        let mut operation = json!({
            "summary": self.summary,
            "parameters": self.parameters(),
            "responses": self.responses(generator),
        });
        if let Some(body) = self.body {
            let schema = body(generator);
            let content = json!({ "application/json": { "schema": schema } });
            operation["requestBody"] = json!({ "required": !self.is_body_optional, "content": content });
        }
        operation
    }

    fn parameters(&self) -> Vec<Value> {
        let named = self.path.split('/').filter_map(|piece| piece.strip_prefix('{')?.strip_suffix('}'));
        let in_path = named.map(|name| {
            let schema = match name {
                "id" if self.path.starts_with("/plimsoll/tasks/") => {
                    json!({ "type": "string", "pattern": "^ses" })
                }
                _ => json!({ "type": "string" }),
            };
            json!({ "name": name, "in": "path", "required": true, "schema": schema })
        });
        let in_query = self.query.iter().chain((!self.is_global).then_some(&DIRECTORY)).map(|Parameter { name, description, kind }| {
            let schema = match kind {
                ParameterKind::Text(pattern) => json!({ "type": "string", "pattern": pattern }),
                ParameterKind::Tokens => json!({ "type": "integer", "minimum": 1 }),
            };
            json!({ "name": name, "in": "query", "required": false, "description": description, "schema": schema })
        });
        in_path.chain(in_query).collect()
    }

    fn responses(&self, generator: &mut SchemaGenerator) -> Value {
        let mut ok = json!({ "description": "Success." });
        if let Some(answer) = self.answer {
            ok["content"] = json!({ "application/json": { "schema": answer(generator) } });
        }
        if self.is_text {
            ok["content"] = json!({ "text/plain": { "schema": { "type": "string" } } });
        }
        let schema = json!({ "type": "object" });
        let error = json!({
            "description": "An error, as `{ \"name\", \"data\": { \"message\" } }`.",
            "content": { "application/json": { "schema": schema } },
        });
        let mut statuses = vec!["400", "401", "403", "500", "503"];
        if self.path.contains('{') {
            statuses.push("404");
        }
        if !matches!(self.method, Method::Get) || self.path.contains('{') {
            statuses.push("409");
        }
        if self.body.is_some() {
            statuses.extend(["404", "408", "413"]);
        }
        let errors = statuses.into_iter().map(|status| (status.to_owned(), error.clone()));
        Value::Object([("200".to_owned(), ok)].into_iter().chain(errors).collect())
    }
}

/// Creates the OpenAPI document of these routes.
pub(super) fn document(routes: impl Iterator<Item = &'static OwnRoute>) -> Value {
    let mut generator = schemars::generate::SchemaSettings::openapi3().into_generator();
    let mut paths = Map::new();
    for route in routes {
        let entry = paths.entry(route.path).or_insert_with(|| json!({}));
        entry[route.method.name()] = route.describe(&mut generator);
    }
    let schemas = generator.take_definitions(true);
    json!({
        "openapi": "3.0.3",
        "info": { "title": "Plimsoll", "version": VERSION },
        "paths": paths,
        "components": { "schemas": schemas },
    })
}
