//! The directory of a request.

use std::path::PathBuf;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use percent_encoding::percent_decode_str;

use crate::app::App;
use crate::app::project::Project;
use crate::error::{ApiError, ApiResult};

/// Header with the percent-encoded directory.
const HEADER: &str = "x-opencode-directory";

/// Extractor of the project of a request: that of the directory in `?directory=` or in the header, otherwise of the root.
pub(crate) struct Scope(pub(crate) Arc<Project>);

impl FromRequestParts<Arc<App>> for Scope {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> ApiResult<Scope> {
        let directory = directory(parts.uri.query(), &parts.headers)?;
        Ok(Scope(app.project(directory.as_deref()).await?))
    }
}

/// Returns the directory that a request names in its query or header. Two different ones are an error, because it is unclear
/// which one is meant.
pub(crate) fn directory(query: Option<&str>, headers: &HeaderMap) -> ApiResult<Option<PathBuf>> {
    let in_query = parameters(query, &["directory", "location[directory]"])?;
    let in_header: Vec<String> = headers
        .get_all(HEADER)
        .iter()
        .map(|value| value.to_str().ok().and_then(decode).ok_or_else(|| bad("Headers")))
        .collect::<ApiResult<_>>()?;
    let mut found = in_query.into_iter().chain(in_header).filter(|directory| !directory.is_empty());
    let Some(first) = found.next() else { return Ok(None) };
    if found.any(|other| other != first) {
        return Err(ApiError::bad_request("Query", "the request names two directories"));
    }
    Ok(Some(PathBuf::from(first)))
}

/// Returns the values of the query parameters with one of these names.
fn parameters(query: Option<&str>, names: &[&str]) -> ApiResult<Vec<String>> {
    let mut values = Vec::new();
    for pair in query.unwrap_or_default().split('&') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if decode(name).is_some_and(|name| names.contains(&name.as_str())) {
            values.push(decode(&value.replace('+', "%20")).ok_or_else(|| bad("Query"))?);
        }
    }
    Ok(values)
}

fn decode(text: &str) -> Option<String> {
    percent_decode_str(text).decode_utf8().ok().map(|text| text.into_owned())
}

fn bad(kind: &str) -> ApiError {
    ApiError::bad_request(kind, "the directory is not valid UTF-8")
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use axum::http::{HeaderMap, HeaderValue};

    use super::directory;

    fn header(value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(super::HEADER.parse().unwrap(), HeaderValue::from_static(value))])
    }

    #[test]
    fn the_directory_is_in_the_query_or_in_the_header() {
        let none = HeaderMap::new();
        let found = |query: Option<&str>, headers: &HeaderMap| directory(query, headers).unwrap();
        assert_eq!(found(None, &none), None);
        assert_eq!(found(Some("a=1&directory=%2Fa%20b+c"), &none), Some(PathBuf::from("/a b c")));
        assert_eq!(found(Some("location%5Bdirectory%5D=%2Fa"), &none), Some(PathBuf::from("/a")));
        assert_eq!(found(None, &header("%2Fa%2Fb")), Some(PathBuf::from("/a/b")));
        assert_eq!(found(Some("directory=%2Fa"), &header("%2Fa")), Some(PathBuf::from("/a")));
        assert!(directory(Some("directory=%2Fa"), &header("%2Fb")).is_err(), "two directories");
        assert!(directory(Some("directory=%ff"), &none).is_err(), "not UTF-8");
    }
}
