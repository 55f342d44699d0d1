//! Outputs of tools, truncated and spilled while they stream.

use std::io::{self, Read, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use plimsoll::PartId;
use plimsoll_store::{CapturedOutput, StoreError};

use crate::error::SessionError;

/// Length of the back-pressure queue: a tool that writes faster than the disk waits.
const QUEUE: usize = 16;

/// Receives the output of one call piece by piece. Dropping it stores what was written but does not answer the call.
///
/// Writing blocks while the disk is slower than the tool. Async hosts write from a blocking thread.
pub struct OutputSink {
    call: PartId,
    sender: Option<SyncSender<Vec<u8>>>,
    thread: Option<JoinHandle<Result<CapturedOutput, StoreError>>>,
}

impl OutputSink {
    /// Creates a sink whose output `take` reads on a separate thread.
    pub(crate) fn spawn(
        call: PartId,
        take: impl FnOnce(&mut dyn Read) -> Result<CapturedOutput, StoreError> + Send + 'static,
    ) -> Result<OutputSink, SessionError> {
        let (sender, receiver) = sync_channel(QUEUE);
        let work = move || take(&mut Pieces { receiver, piece: Vec::new(), read: 0 });
        let thread = std::thread::Builder::new().name("plimsoll-output".into()).spawn(work);
        let thread = thread.map_err(SessionError::Thread)?;
        Ok(OutputSink { call, sender: Some(sender), thread: Some(thread) })
    }

    /// Returns the part of the call.
    pub fn call(&self) -> &PartId {
        &self.call
    }

    /// Waits until everything is stored, which blocks. The result is what the model would see, for hosts that may
    /// change it before they record it.
    pub fn close(mut self) -> Result<CapturedOutput, SessionError> {
        self.sender = None;
        let Some(thread) = self.thread.take() else {
            return Err(SessionError::OutOfOrder("output already consumed"));
        };
        match thread.join() {
            Ok(taken) => Ok(taken?),
            Err(_) => Err(SessionError::Output(io::Error::other("the thread that stores it has panicked"))),
        }
    }
}

impl Write for OutputSink {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let sender = self.sender.as_ref().ok_or_else(|| io::Error::other("output already consumed"))?;
        sender.send(piece.to_vec()).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for OutputSink {
    fn drop(&mut self) {
        self.sender = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The pieces of an output as one stream.
struct Pieces {
    receiver: Receiver<Vec<u8>>,
    piece: Vec<u8>,
    read: usize,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.read == self.piece.len() {
            match self.receiver.recv() {
                Ok(piece) => (self.piece, self.read) = (piece, 0),
                // All senders are dropped: the output is complete.
                Err(_) => return Ok(0),
            }
        }
        let count = buffer.len().min(self.piece.len() - self.read);
        buffer[..count].copy_from_slice(&self.piece[self.read..self.read + count]);
        self.read += count;
        Ok(count)
    }
}
