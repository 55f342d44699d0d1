//! Newline-delimited messages on standard input and output, with a limit on their length.
//!
//! `rmcp` silently drops a message over its limit, and the client waits for a response forever. Messages pass through this module
//! first: one over the limit is answered with an error, and the connection continues. At most one message is held in memory.

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf,
};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Maximum length of a message, in bytes, equal to `rmcp`'s own limit. Calls of our tools take a few hundred.
const LARGEST: usize = 16 << 20;
/// Size of each buffer between the client and the server, in bytes.
const BUFFER: usize = 64 << 10;
/// Length of the queue of error responses.
const WAITING: usize = 16;
/// JSON-RPC error code for an invalid request.
const INVALID_REQUEST: i64 = -32_600;

/// The streams for the server, and the task that writes its responses.
pub(super) struct Lines {
    pub(super) streams: (ReadHalf<DuplexStream>, WriteHalf<DuplexStream>),
    pub(super) written: JoinHandle<()>,
}

impl Lines {
    /// Connects a server to `input` and `output`.
    pub(super) fn between(
        input: impl AsyncRead + Unpin + Send + 'static,
        output: impl AsyncWrite + Unpin + Send + 'static,
    ) -> Lines {
        let (near, far) = tokio::io::duplex(BUFFER);
        let (answers, requests) = tokio::io::split(near);
        let (refused, refusals) = mpsc::channel(WAITING);
        tokio::spawn(carry_in(input, requests, refused));
        let written = tokio::spawn(carry_out(answers, refusals, output));
        Lines { streams: tokio::io::split(far), written }
    }
}

/// Forwards messages to the server until the client closes the stream.
async fn carry_in(
    input: impl AsyncRead + Unpin,
    mut requests: WriteHalf<DuplexStream>,
    refused: mpsc::Sender<Value>,
) {
    let mut input = BufReader::with_capacity(BUFFER, input);
    let mut line = Vec::new();
    // Id of a message over the limit, until its end was read.
    let mut too_long: Option<Value> = None;
    loop {
        let piece = match input.fill_buf().await {
            Ok(piece) if !piece.is_empty() => piece,
            _ => break,
        };
        let end = memchr::memchr(b'\n', piece);
        let taken = end.map_or(piece.len(), |end| end + 1);
        if too_long.is_none() {
            line.extend_from_slice(&piece[..taken]);
        }
        input.consume(taken);
        if line.len() > LARGEST {
            too_long = Some(id_of(&line));
            line = Vec::new();
        }
        if end.is_none() {
            continue;
        }
        match too_long.take() {
            Some(id) => drop(refused.send(refusal(&id)).await),
            None if requests.write_all(&line).await.is_err() => break,
            None => line.clear(),
        }
    }
    if let Some(id) = too_long {
        drop(refused.send(refusal(&id)).await);
    }
    let _ = requests.shutdown().await;
}

/// Forwards responses to the client until the server closes the stream.
async fn carry_out(
    answers: ReadHalf<DuplexStream>,
    mut refusals: mpsc::Receiver<Value>,
    mut output: impl AsyncWrite + Unpin,
) {
    let mut answers = BufReader::with_capacity(BUFFER, answers);
    let mut line = Vec::new();
    loop {
        // If a refusal is ready first, a partially read line stays in `line`.
        let written = tokio::select! {
            read = answers.read_until(b'\n', &mut line) => match read {
                Ok(1..) => {
                    let line = std::mem::take(&mut line);
                    output.write_all(&line).await
                }
                _ => break,
            },
            Some(refusal) = refusals.recv() => output.write_all(format!("{refusal}\n").as_bytes()).await,
        };
        if written.is_err() || output.flush().await.is_err() {
            return;
        }
    }
    while let Ok(refusal) = refusals.try_recv() {
        let _ = output.write_all(format!("{refusal}\n").as_bytes()).await;
    }
    let _ = output.flush().await;
}

fn refusal(id: &Value) -> Value {
    let message = format!("the message is larger than {} MB", LARGEST >> 20);
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": INVALID_REQUEST, "message": message } })
}

/// Returns the id in the beginning of a message, or null if it comes later.
fn id_of(beginning: &[u8]) -> Value {
    let found = RefCell::new(Value::Null);
    // The input is truncated, so this always fails; the id may have been found before.
    let _ = FindId(&found).deserialize(&mut serde_json::Deserializer::from_slice(beginning));
    found.into_inner()
}

/// Reads an object up to its id.
struct FindId<'a>(&'a RefCell<Value>);

impl<'de> DeserializeSeed<'de> for FindId<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for FindId<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if key != "id" {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let id = map.next_value::<Value>()?;
            if id.is_string() || id.is_number() {
                *self.0.borrow_mut() = id;
            }
            break;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::id_of;

    #[test]
    fn an_id_is_found_before_what_makes_a_message_long() {
        for (beginning, id) in [
            (r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"x":"yyy"#, json!(7)),
            (r#"{"id":"a-1","params":{"x":"yyy"#, json!("a-1")),
            (r#"{"params":{"id":3,"x":"yyy"#, Value::Null),
            (r#"{"id":{"x":1},"params":{"x":"yyy"#, Value::Null),
            (r#"[{"id":3},"yyy"#, Value::Null),
            ("", Value::Null),
        ] {
            assert_eq!(id_of(beginning.as_bytes()), id, "{beginning}");
        }
    }
}
