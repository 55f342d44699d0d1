//! Ctrl-C and a request to end: sessions that are held are given back first, so that the next command need not wait for
//! their leases to run out.

use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};

use plimsoll_store::{Archive, Lease};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tokio_util::sync::CancellationToken;

/// The exit code of a command that was interrupted, as shells have it.
pub(crate) const INTERRUPTED_CODE: u8 = 130;

/// What ends by itself when it is told to, and then gives back what it holds.
static CANCEL: Mutex<Option<CancellationToken>> = Mutex::new(None);
static HELD: Mutex<Vec<(Arc<Archive>, Lease)>> = Mutex::new(Vec::new());
static WATCH: Once = Once::new();

/// Give this lease back if the command is interrupted. Giving back one that was given back already does nothing.
pub(crate) fn give_back(archive: &Arc<Archive>, lease: &Lease) {
    hold(archive, lease);
    watch();
}

/// Let [`release`] give this lease back, for commands that take signals themselves.
pub(crate) fn hold(archive: &Arc<Archive>, lease: &Lease) {
    held().push((Arc::clone(archive), lease.clone()));
}

/// Cancel this at the first interrupt; a second one ends the command at once.
pub(crate) fn cancel_first(cancel: CancellationToken) {
    *CANCEL.lock().unwrap_or_else(PoisonError::into_inner) = Some(cancel);
    watch();
}

fn watch() {
    WATCH.call_once(|| {
        let mut kinds = vec![SIGINT, SIGTERM];
        kinds.extend((!ignores_hang_up()).then_some(SIGHUP));
        // Without a handler the lease runs out by itself, which is all that would be lost.
        let Ok(mut signals) = Signals::new(kinds) else { return };
        let watch = move || signals.forever().for_each(|_| end());
        drop(std::thread::Builder::new().name("plimsoll-signals".into()).spawn(watch));
    });
}

/// Whether this process was started so that it ignores a hang-up, as `nohup` does. Then it goes on to: a handler would take
/// that away. Only Linux says so without unsafe code; elsewhere a hang-up is heeded.
pub(crate) fn ignores_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask & (1 << (SIGHUP - 1)) != 0)
}

/// Turns a write beyond the file size limit (`ulimit -f`) into an error. By default SIGXFSZ kills the process. A handler is
/// reset in child processes, so commands keep the default; an ignored signal would be inherited.
pub(crate) fn survive_file_size_limit() {
    #[cfg(unix)]
    {
        let signal = rustix::process::Signal::XFSZ.as_raw();
        let _ = signal_hook::flag::register(signal, Arc::default());
    }
}

/// A write under way is committed first: the store's single writer makes the release wait its turn.
fn end() {
    if let Some(cancel) = CANCEL.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return cancel.cancel();
    }
    release();
    std::process::exit(i32::from(INTERRUPTED_CODE));
}

/// Give back what is held.
pub(crate) fn release() {
    for (archive, lease) in held().drain(..) {
        // The command is ending; a lease that cannot be released runs out by itself.
        let _ = archive.store().release(&lease);
    }
}

fn held() -> MutexGuard<'static, Vec<(Arc<Archive>, Lease)>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use plimsoll::{Millis, SessionId};
    use plimsoll_store::{Archive, MemoryStore, NewSession};

    #[test]
    fn p6_an_interrupted_command_gives_its_session_back() {
        let archive = Arc::new(Archive::new(Box::new(MemoryStore::new()), Err("no spills here".into())));
        let id = SessionId::new("ses_1");
        archive.store().create(NewSession::new(id.clone()), Millis(1)).unwrap();
        let hour = Duration::from_secs(3_600);
        super::give_back(&archive, &archive.store().lease(&id, "first", hour).unwrap());
        assert!(archive.store().lease(&id, "second", hour).is_err());
        super::release();
        archive.store().lease(&id, "second", hour).unwrap();
        super::release();
        assert!(archive.store().lease(&id, "third", hour).is_err(), "the lease of another stays");
    }
}
