//! Distribution of events to the open streams.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use axum::response::Response;
use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{self, Receiver};
use tokio::time::{Interval, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::app::project::Database;

/// An event for all streams.
pub(crate) struct Broadcast {
    /// Directory of the event.
    directory: String,
    /// Frames of the event: for `/event`, and wrapped for `/global/event`.
    local: Bytes,
    global: Bytes,
}

/// Sends events to all open streams.
pub(crate) struct Hub {
    sender: broadcast::Sender<Arc<Broadcast>>,
}

/// Selects the events of a stream.
pub(crate) enum Reach {
    /// All events of one directory, for `/event`.
    Directory(String),
    /// Events of one directory or of all, for `/global/event`.
    Global(Option<PathBuf>),
}

impl Hub {
    /// Creates a hub. `queue` is the maximum number of events that wait for a reader. A slower reader is disconnected; it
    /// reconnects and reads the sessions again, which costs less than an unbounded queue.
    pub(crate) fn new(queue: usize) -> Hub {
        Hub { sender: broadcast::Sender::new(queue.max(1)) }
    }

    /// Whether any stream is open. If not, events need not be built.
    pub(crate) fn has_readers(&self) -> bool {
        self.sender.receiver_count() > 0
    }

    /// Sends an event to the streams of a directory.
    pub(crate) fn publish(&self, app: &App, directory: &str, kind: &str, properties: Value) {
        if !self.has_readers() {
            return;
        }
        let event = event(app, kind, properties);
        let global = frame(&json!({ "directory": directory, "payload": event }));
        let broadcast = Broadcast { directory: directory.to_owned(), local: frame(&event), global };
        // Fails if the last stream has just ended.
        let _ = self.sender.send(Arc::new(broadcast));
    }

    /// Waits until the pollers have read the last changes, so that streams do not end before reporting them.
    pub(crate) async fn flush(&self, databases: Vec<Arc<Database>>) {
        if self.has_readers() {
            databases.iter().for_each(|database| database.changed.notify_one());
            tokio::time::sleep(super::feed::POLL_INTERVAL * 2).await;
        }
    }

    /// Opens a stream.
    pub(crate) fn open(&self, app: &Arc<App>, reach: Reach) -> Response {
        let mut heartbeat = interval(app.options.heartbeat.max(Duration::from_millis(10)));
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        heartbeat.reset();
        let reader = Reader {
            app: Arc::clone(app),
            // Subscribed before the client gets `server.connected`, so that it misses nothing after that.
            events: self.sender.subscribe(),
            reach,
            heartbeat,
            stop: app.stop.clone(),
            is_connected: false,
        };
        let stream = futures_util::stream::unfold(reader, async |mut reader| {
            let frame = reader.next().await?;
            Some((Ok::<Bytes, Infallible>(frame), reader))
        });
        let mut response = Response::new(Body::from_stream(stream));
        let headers = response.headers_mut();
        for (name, value) in [
            (CONTENT_TYPE, "text/event-stream"),
            (CACHE_CONTROL, "no-cache, no-transform"),
            // nginx would otherwise hold events back in its buffer.
            (HeaderName::from_static("x-accel-buffering"), "no"),
            (HeaderName::from_static("x-content-type-options"), "nosniff"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        response
    }
}

struct Reader {
    app: Arc<App>,
    events: Receiver<Arc<Broadcast>>,
    reach: Reach,
    heartbeat: Interval,
    stop: CancellationToken,
    is_connected: bool,
}

impl Reader {
    /// Returns the next frame; `None` ends the stream.
    async fn next(&mut self) -> Option<Bytes> {
        if !self.is_connected {
            self.is_connected = true;
            return Some(self.own("server.connected"));
        }
        loop {
            // Events come before the stop, so that a client sees how the runs have ended.
            tokio::select! {
                biased;
                received = self.events.recv() => match received {
                    Ok(event) => match self.frame_of(&event) {
                        Some(frame) => return Some(frame),
                        None => continue,
                    },
                    Err(RecvError::Lagged(missed)) => {
                        tracing::warn!(missed, "an event stream is dropped: its reader is too slow");
                        return None;
                    }
                    Err(RecvError::Closed) => return None,
                },
                () = self.stop.cancelled() => return None,
                _ = self.heartbeat.tick() => return Some(self.own("server.heartbeat")),
            }
        }
    }

    fn frame_of(&self, event: &Broadcast) -> Option<Bytes> {
        match &self.reach {
            Reach::Directory(directory) => (event.directory == *directory).then(|| event.local.clone()),
            Reach::Global(None) => Some(event.global.clone()),
            Reach::Global(Some(directory)) => {
                (directory.as_os_str() == event.directory.as_str()).then(|| event.global.clone())
            }
        }
    }

    /// Creates a frame of the stream's own, such as a heartbeat.
    fn own(&self, kind: &str) -> Bytes {
        let event = event(&self.app, kind, json!({}));
        match self.reach {
            Reach::Directory(_) => frame(&event),
            Reach::Global(_) => frame(&json!({ "payload": event })),
        }
    }
}

fn event(app: &App, kind: &str, properties: Value) -> Value {
    let mut event = json!({ "id": app.id("evt"), "type": kind });
    // Moved rather than serialised again: it may hold a long text.
    event["properties"] = properties;
    event
}

fn frame(value: &Value) -> Bytes {
    Bytes::from(format!("data: {value}\n\n"))
}
