//! The page at `/`. It works offline: everything it needs is embedded, and it talks to this server only.
//!
//! Transcripts are untrusted. The script inserts them as text, never as markup, and the content security policy of the document
//! only allows files of this server.

use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, REFERRER_POLICY};
use axum::response::{IntoResponse, Response};

const DOCUMENT: &str = include_str!("index.html");
const SCRIPT: &str = include_str!("app.js");
const STYLE: &str = include_str!("page.css");

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(crate) async fn document() -> Response {
    let opener = HeaderName::from_static("cross-origin-opener-policy");
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (REFERRER_POLICY, "no-referrer"),
        (opener, "same-origin"),
    ];
    (headers, DOCUMENT).into_response()
}

pub(crate) async fn script() -> Response {
    ([(CONTENT_TYPE, "text/javascript; charset=utf-8")], SCRIPT).into_response()
}

pub(crate) async fn style() -> Response {
    ([(CONTENT_TYPE, "text/css; charset=utf-8")], STYLE).into_response()
}
