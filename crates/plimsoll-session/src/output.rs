//! Outputs of tools: layer 1 while they stream.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use plimsoll::log::ToolTime;
use plimsoll::{Part, PartId, Receipt, Text, ToolStatus};
use plimsoll_store::{StoreError, Taken};
use serde_json::{Map, Value};

use crate::driver::Driver;
use crate::error::SessionError;

/// So many pieces of output wait for the disk before the tool that prints them has to.
const QUEUE: usize = 16;

impl Driver {
    /// A tool starts to work on a call.
    pub fn start_call(&mut self, call: &PartId) -> Result<(), SessionError> {
        let now = self.now();
        self.advance_call(call, |state| {
            state.status = ToolStatus::Running;
            state.time = ToolTime::started(now);
        })
    }

    /// A tool has answered: take its output through layer 1, and record the answer. What is cut is kept first.
    pub fn take_output(
        &mut self,
        call: &PartId,
        output: &mut dyn Read,
    ) -> Result<Option<Receipt>, SessionError> {
        let tool = self.tool_of(call)?;
        let (now, policy) = (self.now(), Arc::clone(&self.settings.policy));
        let archive = Arc::clone(&self.archive);
        self.keep_lease()?;
        let taken = archive.take_output(&self.lease.claim(), call, &tool, output, &policy, now)?;
        self.finish_taken(call, taken)
    }

    /// A sink for the output of a tool that prints while it works. It does not borrow the driver, so that several
    /// tools can work at once; [`finish_output`](Driver::finish_output) takes it back.
    pub fn output(&mut self, call: &PartId) -> Result<OutputSink, SessionError> {
        let tool = self.tool_of(call)?;
        self.keep_lease()?;
        let (sender, receiver) = sync_channel(QUEUE);
        let (archive, claim) = (Arc::clone(&self.archive), self.lease.claim());
        let (policy, now, part) = (Arc::clone(&self.settings.policy), self.now(), call.clone());
        let work = move || {
            let mut pieces = Pieces { receiver, piece: Vec::new(), read: 0 };
            archive.take_output(&claim, &part, &tool, &mut pieces, &policy, now)
        };
        let thread = std::thread::Builder::new().name("plimsoll-output".into()).spawn(work);
        let thread = thread.map_err(SessionError::Output)?;
        Ok(OutputSink { call: call.clone(), sender: Some(sender), thread: Some(thread) })
    }

    /// The tool that printed into a sink has answered: record the answer.
    pub fn finish_output(&mut self, sink: OutputSink) -> Result<Option<Receipt>, SessionError> {
        let call = sink.call.clone();
        let taken = self.close_output(sink)?;
        self.finish_taken(&call, taken)
    }

    /// The tool that printed into a sink has answered: what the answer would be, for hosts that may change it. The call is
    /// answered by [`finish_taken`](Driver::finish_taken), or by [`take_output`](Driver::take_output) with something else.
    pub fn close_output(&mut self, mut sink: OutputSink) -> Result<Taken, SessionError> {
        sink.close()
    }

    /// Keep content of a call that is not shown: an image, or an output that something else is shown in the place of. Gives
    /// the handle it is recalled by.
    pub fn keep_aside(
        &mut self,
        call: &PartId,
        shown: &str,
        content: &mut dyn Read,
    ) -> Result<String, SessionError> {
        let (tool, now, archive) = (self.tool_of(call)?, self.now(), Arc::clone(&self.archive));
        self.keep_lease()?;
        Ok(archive.keep_aside(&self.lease.claim(), call, &tool, shown, content, now)?)
    }

    /// A tool has failed, or was not allowed to run.
    pub fn fail_call(&mut self, call: &PartId, error: impl Into<Text>) -> Result<(), SessionError> {
        self.fail_calls(std::slice::from_ref(call), error)
    }

    /// Like [`fail_call`](Driver::fail_call) for several calls, in one write: an answer may have thousands.
    pub(crate) fn fail_calls(
        &mut self,
        calls: &[PartId],
        error: impl Into<Text>,
    ) -> Result<(), SessionError> {
        let (now, error) = (self.now(), error.into());
        let failed = calls.iter().map(|call| {
            self.changed_call(call, |state| {
                state.status = ToolStatus::Error;
                state.error = Some(error.clone());
                state.time = ToolTime::ran(state.time.start.unwrap_or(now), now);
            })
        });
        let failed = failed.collect::<Result<Vec<Part>, SessionError>>()?;
        if failed.is_empty() { Ok(()) } else { self.advance_all(failed) }
    }

    /// Record something about a running call beside its output, which the model is not shown: a host that looks at the
    /// log later needs no text to know what the call was told.
    pub fn annotate_call(&mut self, call: &PartId, key: &str, value: Value) -> Result<(), SessionError> {
        self.advance_call(call, |state| {
            let metadata = state.extra.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(fields) = metadata {
                fields.insert(key.to_owned(), value);
            }
        })
    }

    /// Record the answer of a call, which has passed layer 1.
    pub fn finish_taken(&mut self, call: &PartId, taken: Taken) -> Result<Option<Receipt>, SessionError> {
        let (now, Taken { shown, receipt, .. }) = (self.now(), taken);
        self.advance_call(call, |state| {
            state.status = ToolStatus::Completed;
            state.output = Some(shown);
            state.time = ToolTime::ran(state.time.start.unwrap_or(now), now);
        })?;
        Ok(receipt)
    }

    fn tool_of(&self, call: &PartId) -> Result<String, SessionError> {
        let part = self.log.part(call)?;
        part.as_tool().map(|tool| tool.tool.clone()).ok_or_else(|| SessionError::NotACall(call.clone()))
    }
}

/// Takes the output of one call as it is printed. A sink that is dropped keeps what came by then and answers nothing.
pub struct OutputSink {
    call: PartId,
    sender: Option<SyncSender<Vec<u8>>>,
    thread: Option<JoinHandle<Result<Taken, StoreError>>>,
}

impl OutputSink {
    /// The call whose output it takes.
    pub fn call(&self) -> &PartId {
        &self.call
    }

    fn close(&mut self) -> Result<Taken, SessionError> {
        self.sender = None;
        let thread = self.thread.take().ok_or(SessionError::OutOfOrder("the output was taken before"))?;
        match thread.join() {
            Ok(taken) => Ok(taken?),
            Err(_) => Err(SessionError::Output(io::Error::other("the thread that kept it has panicked"))),
        }
    }
}

impl Write for OutputSink {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let sender = self.sender.as_ref().ok_or_else(|| io::Error::other("the output was taken before"))?;
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
                // The tool has printed its last.
                Err(_) => return Ok(0),
            }
        }
        let count = buffer.len().min(self.piece.len() - self.read);
        buffer[..count].copy_from_slice(&self.piece[self.read..self.read + count]);
        self.read += count;
        Ok(count)
    }
}
