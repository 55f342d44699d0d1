//! Reads stored sessions message by message.

use plimsoll::{Message, SessionId};
use plimsoll_store::{CountWatch, PageRequest, StopFlag, Store, StoreError};

/// Number of messages that are read at a time.
const PAGE: u64 = 500;
/// Maximum number of parts whose texts are held until they are counted.
const MAX_UNCOUNTED: usize = 4_000;

/// Reads all messages of a stored session, oldest first, one page at a time. Token counts that the sink makes of their
/// texts are stored with the parts, so that nothing is counted again the next time.
pub fn each_message(
    store: &dyn Store,
    id: &SessionId,
    sink: &mut dyn FnMut(Message),
) -> Result<(), StoreError> {
    each_message_as(store, id, &StopFlag::default(), &mut |message| message, sink)
}

/// Like [`each_message`], with each message replaced by what `current` returns for it, until the flag is set.
pub(crate) fn each_message_as(
    store: &dyn Store,
    id: &SessionId,
    stop: &StopFlag,
    current: &mut dyn FnMut(Message) -> Message,
    sink: &mut dyn FnMut(Message),
) -> Result<(), StoreError> {
    let mut request = PageRequest { from: None, oldest_first: true, most: PAGE };
    let mut counts = CountWatch::new(MAX_UNCOUNTED);
    loop {
        let page = store.page(id, &request)?;
        for message in page.messages {
            stop.check()?;
            let message = current(message);
            counts.watch(&message);
            sink(message);
        }
        counts.settle(store, id);
        match page.next {
            Some(next) => request.from = Some(next),
            None => break,
        }
    }
    counts.finish(store, id);
    Ok(())
}
