//! The real server, asked over plain HTTP.

use std::error::Error;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::{Value, json};

/// A server on this machine that speaks OpenAI Chat Completions.
#[derive(Clone, Debug)]
pub(crate) struct Upstream {
    /// `host:port`.
    authority: String,
}

/// Response of the server.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

impl Upstream {
    pub(crate) fn new(url: &str) -> Result<Upstream, Box<dyn Error>> {
        let rest = url.strip_prefix("http://").ok_or("the server's address must begin with http://")?;
        let authority = rest.split('/').next().unwrap_or_default();
        Ok(Upstream { authority: authority.to_owned() })
    }

    /// The base URL for a client that asks the server itself.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1", self.authority)
    }

    /// Post JSON and wait for the whole answer.
    ///
    /// By hand instead of with an HTTP library: the connection is closed after each answer, so the body is whatever
    /// comes until its end, and the example needs no further dependency.
    pub(crate) fn post(&self, path: &str, body: &Value) -> Result<Answer, Box<dyn Error + Send + Sync>> {
        let body = body.to_string();
        let mut stream = TcpStream::connect(&self.authority)?;
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
             connection: close\r\n\r\n{body}",
            self.authority,
            body.len()
        )?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        let answer = String::from_utf8_lossy(&answer);
        let (head, body) = answer.split_once("\r\n\r\n").ok_or("the server closed the connection")?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        Ok(Answer { status: status.ok_or("no status line")?, body: serde_json::from_str(body)? })
    }

    /// How many tokens a text is to the model itself.
    pub(crate) fn count(&self, text: &str) -> Option<u64> {
        let answer = self.post("/extras/tokenize/count", &json!({ "input": text })).ok()?;
        answer.body.get("count").and_then(Value::as_u64)
    }
}
