//! Distribution of events to the open streams.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use axum::response::Response;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::{Interval, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::app::project::Database;

/// Sends events to all open streams.
pub(crate) struct Hub {
    readers: Mutex<Vec<Arc<Queue>>>,
    limits: QueueLimits,
    /// Bytes of the frames that wait in queues. A frame that waits in several of them counts once.
    waiting: Arc<AtomicUsize>,
}

/// Limits of what waits for readers. A reader beyond them is dropped; it reconnects and reads the sessions again, which costs
/// less than an unbounded queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueLimits {
    /// Maximum number of events that wait for one reader.
    pub(crate) events: usize,
    /// Maximum size of what waits for all readers, in bytes. The reader with the most unread bytes is dropped first.
    pub(crate) bytes: usize,
}

/// Selects the events of a stream.
pub(crate) enum Reach {
    /// All events of one directory, for `/event`.
    Directory(String),
    /// Events of one directory or of all, for `/global/event`.
    Global(Option<PathBuf>),
}

impl Reach {
    pub(super) fn has(&self, directory: &str) -> bool {
        match self {
            Reach::Directory(own) => own == directory,
            Reach::Global(None) => true,
            Reach::Global(Some(own)) => own.as_os_str() == directory,
        }
    }

    fn is_global(&self) -> bool {
        matches!(self, Reach::Global(_))
    }
}

/// The frame of an event, shared by the queues of its readers.
struct Frame {
    text: Bytes,
    waiting: Arc<AtomicUsize>,
}

impl Drop for Frame {
    fn drop(&mut self) {
        self.waiting.fetch_sub(self.text.len(), Ordering::SeqCst);
    }
}

/// The events that wait for one reader.
pub(super) struct Queue {
    pub(super) reach: Reach,
    waiting: Mutex<Waiting>,
    arrived: Notify,
}

#[derive(Default)]
struct Waiting {
    frames: VecDeque<Arc<Frame>>,
    bytes: usize,
    is_dropped: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Queue {
    /// Adds a frame. Returns the number of those that wait.
    fn push(&self, frame: &Arc<Frame>) -> usize {
        let mut waiting = lock(&self.waiting);
        if !waiting.is_dropped {
            waiting.bytes += frame.text.len();
            waiting.frames.push_back(Arc::clone(frame));
            self.arrived.notify_one();
        }
        waiting.frames.len()
    }

    /// Takes the oldest frame; `None` if the reader was dropped.
    fn pop(&self) -> Option<Option<Bytes>> {
        let mut waiting = lock(&self.waiting);
        if waiting.is_dropped {
            return None;
        }
        let frame = waiting.frames.pop_front();
        Some(frame.map(|frame| {
            waiting.bytes -= frame.text.len();
            frame.text.clone()
        }))
    }

    /// Number of waiting events, and their size in bytes.
    pub(super) fn size(&self) -> (usize, usize) {
        let waiting = lock(&self.waiting);
        (waiting.frames.len(), waiting.bytes)
    }

    /// Ends the stream, and frees what waits for it.
    fn drop_reader(&self) {
        let (events, bytes) = self.size();
        tracing::warn!(events, bytes, "an event stream is dropped: its reader is too slow");
        *lock(&self.waiting) = Waiting { is_dropped: true, ..Waiting::default() };
        self.arrived.notify_one();
    }
}

impl Hub {
    /// Creates a hub without readers.
    pub(crate) fn new(limits: QueueLimits) -> Hub {
        Hub { readers: Mutex::default(), limits, waiting: Arc::default() }
    }

    /// Whether any stream is open. If not, events need not be built.
    pub(crate) fn has_readers(&self) -> bool {
        !lock(&self.readers).is_empty()
    }

    /// Sends an event to the streams of a directory.
    pub(crate) fn publish(&self, app: &App, directory: &str, kind: &str, properties: Value) {
        let (mut is_local, mut is_global) = (false, false);
        for reader in lock(&self.readers).iter().filter(|reader| reader.reach.has(directory)) {
            match reader.reach.is_global() {
                true => is_global = true,
                false => is_local = true,
            }
        }
        if is_local || is_global {
            let event = event(app, kind, properties).to_string();
            let global = is_global.then(|| global_frame(directory, &event));
            self.send(directory, is_local.then(|| local_frame(&event)), global);
        }
    }

    /// Sends an event to one reader only.
    pub(super) fn publish_to(
        &self,
        reader: &Queue,
        app: &App,
        directory: &str,
        kind: &str,
        properties: Value,
    ) {
        let event = event(app, kind, properties).to_string();
        let is_global = reader.reach.is_global();
        let text = if is_global { global_frame(directory, &event) } else { local_frame(&event) };
        reader.push(&self.counted(text));
    }

    fn counted(&self, text: Bytes) -> Arc<Frame> {
        self.waiting.fetch_add(text.len(), Ordering::SeqCst);
        Arc::new(Frame { text, waiting: Arc::clone(&self.waiting) })
    }

    /// Queues the frames of an event for its readers.
    fn send(&self, directory: &str, local: Option<Bytes>, global: Option<Bytes>) {
        let (local, global) = (local.map(|text| self.counted(text)), global.map(|text| self.counted(text)));
        let QueueLimits { events, bytes } = self.limits;
        let mut readers = lock(&self.readers);
        readers.retain(|reader| {
            // A reader that came after the frames were built begins with the next event.
            let frame = if reader.reach.is_global() { &global } else { &local };
            let waiting = match frame {
                Some(frame) if reader.reach.has(directory) => reader.push(frame),
                _ => 0,
            };
            if waiting > events {
                reader.drop_reader();
            }
            waiting <= events
        });
        drop((local, global));
        while self.waiting.load(Ordering::SeqCst) > bytes {
            // A reader that only waits for the newest event is not slow, however large that is.
            let slow = readers.iter().enumerate().filter(|(_, reader)| reader.size().0 > 1);
            let Some((slowest, _)) = slow.max_by_key(|(_, reader)| reader.size().1) else { break };
            readers.swap_remove(slowest).drop_reader();
        }
    }

    /// Waits until the pollers have read the last changes, so that streams do not end before reporting them.
    pub(crate) async fn flush(&self, databases: Vec<Arc<Database>>) {
        if self.has_readers() {
            databases.iter().for_each(|database| database.changed.notify_one());
            tokio::time::sleep(super::feed::POLL_INTERVAL * 2).await;
        }
    }

    /// Adds a reader, which begins with the next event.
    fn subscribe(&self, reach: Reach) -> Arc<Queue> {
        let queue = Arc::new(Queue { reach, waiting: Mutex::default(), arrived: Notify::new() });
        lock(&self.readers).push(Arc::clone(&queue));
        queue
    }

    fn unsubscribe(&self, queue: &Arc<Queue>) {
        lock(&self.readers).retain(|known| !Arc::ptr_eq(known, queue));
    }

    /// Opens a stream.
    pub(crate) fn open(&self, app: &Arc<App>, reach: Reach) -> Response {
        let mut heartbeat = interval(app.options.heartbeat.max(Duration::from_millis(10)));
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        heartbeat.reset();
        let reader = Reader {
            app: Arc::clone(app),
            // Subscribed before the client gets `server.connected`, so that it misses nothing after that.
            queue: self.subscribe(reach),
            heartbeat,
            stop: app.stop.clone(),
            is_connected: false,
        };
        super::replay::begin(app, &reader.queue);
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
    queue: Arc<Queue>,
    heartbeat: Interval,
    stop: CancellationToken,
    is_connected: bool,
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.app.hub.unsubscribe(&self.queue);
    }
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
            if let Some(frame) = self.queue.pop()? {
                return Some(frame);
            }
            tokio::select! {
                biased;
                () = self.queue.arrived.notified() => {}
                () = self.stop.cancelled() => return None,
                _ = self.heartbeat.tick() => return Some(self.own("server.heartbeat")),
            }
        }
    }

    /// Creates a frame of the stream's own, such as a heartbeat.
    fn own(&self, kind: &str) -> Bytes {
        let event = event(&self.app, kind, json!({}));
        match self.queue.reach {
            Reach::Directory(_) => local_frame(&event.to_string()),
            Reach::Global(_) => local_frame(&json!({ "payload": event }).to_string()),
        }
    }
}

fn event(app: &App, kind: &str, properties: Value) -> Value {
    let mut event = json!({ "id": app.id("evt"), "type": kind });
    // Moved rather than serialised again: it may hold a long text.
    event["properties"] = properties;
    event
}

/// The frame of an event for `/event`.
fn local_frame(event: &str) -> Bytes {
    Bytes::from(format!("data: {event}\n\n"))
}

/// The frame of an event for `/global/event`, which also names the directory. The event is not serialised again.
fn global_frame(directory: &str, event: &str) -> Bytes {
    Bytes::from(format!("data: {{\"directory\":{},\"payload\":{event}}}\n\n", json!(directory)))
}

#[cfg(test)]
mod tests {
    use super::{Bytes, Hub, QueueLimits, Reach};

    fn local() -> Reach {
        Reach::Directory("/a".to_owned())
    }

    fn frame(size: usize) -> Option<Bytes> {
        Some(Bytes::from(vec![b'x'; size]))
    }

    #[test]
    fn the_reader_with_the_most_unread_bytes_is_dropped_first() {
        let hub = Hub::new(QueueLimits { events: 100, bytes: 1_000 });
        let (slow, fast) = (hub.subscribe(local()), hub.subscribe(Reach::Global(None)));
        for _ in 0..4 {
            hub.send("/a", frame(300), frame(300));
            fast.pop();
        }
        assert_eq!(slow.pop(), None, "it was dropped");
        assert_eq!(fast.pop(), Some(None), "it has read everything");
        assert_eq!(hub.waiting.load(std::sync::atomic::Ordering::SeqCst), 0);
    }

    #[test]
    fn an_event_that_is_larger_than_the_limit_is_sent() {
        let hub = Hub::new(QueueLimits { events: 100, bytes: 1_000 });
        let reader = hub.subscribe(local());
        hub.send("/a", frame(5_000), None);
        assert_eq!(reader.pop().flatten().map(|frame| frame.len()), Some(5_000));
    }

    #[test]
    fn a_frame_that_waits_for_several_readers_counts_once() {
        let hub = Hub::new(QueueLimits { events: 100, bytes: 1_000 });
        let readers: Vec<_> = (0..10).map(|_| hub.subscribe(local())).collect();
        hub.send("/a", frame(400), None);
        hub.send("/a", frame(400), None);
        assert!(readers.iter().all(|reader| reader.size() == (2, 800)));
        hub.unsubscribe(&readers[0]);
        assert!(hub.has_readers());
    }

    #[test]
    fn a_reader_with_too_many_events_is_dropped() {
        let hub = Hub::new(QueueLimits { events: 2, bytes: 1_000 });
        let reader = hub.subscribe(local());
        (0..3).for_each(|_| hub.send("/a", frame(1), None));
        assert_eq!(reader.pop(), None);
        assert!(!hub.has_readers(), "nothing is built for it any more");
    }
}
