//! Signals: leases are released before the process exits, so that the next command need not wait until they expire.

use std::sync::{Arc, Mutex, Once, PoisonError};

use plimsoll_host::Leases;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tokio_util::sync::CancellationToken;

/// The exit code of a command that was interrupted, as in shells.
pub(crate) const INTERRUPTED_CODE: u8 = 130;

/// Cancelled at the first interrupt instead of exiting; whatever owns it cleans up and releases its leases.
static CANCEL: Mutex<Option<CancellationToken>> = Mutex::new(None);
static LEASES: Mutex<Option<Arc<Leases>>> = Mutex::new(None);
static WATCH: Once = Once::new();

/// Creates the registry of leases that are released if the command is interrupted. Signals are handled from the first lease
/// on.
pub(crate) fn leases() -> Arc<Leases> {
    register(Leases::on_first(watch))
}

/// Creates the registry for a command that handles signals itself and calls [`release`].
pub(crate) fn leases_without_signals() -> Arc<Leases> {
    register(Leases::default())
}

fn register(leases: Leases) -> Arc<Leases> {
    let leases = Arc::new(leases);
    *LEASES.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&leases));
    leases
}

/// Cancels this at the first interrupt; a second one ends the command at once.
pub(crate) fn cancel_first(cancel: CancellationToken) {
    *CANCEL.lock().unwrap_or_else(PoisonError::into_inner) = Some(cancel);
    watch();
}

fn watch() {
    WATCH.call_once(|| {
        let mut kinds = vec![SIGINT, SIGTERM];
        kinds.extend((!ignores_hang_up()).then_some(SIGHUP));
        // Without a handler, the lease expires by itself; nothing else is lost.
        // A thread and not a handler: the release of leases takes locks and writes to the database, which a handler must not.
        let Ok(mut signals) = Signals::new(kinds) else { return };
        let watch = move || signals.forever().for_each(|_| end());
        drop(std::thread::Builder::new().name("plimsoll-signals".into()).spawn(watch));
    });
}

/// Whether this process ignores hang-ups, as under `nohup`. Then it must not install a handler, which would undo that. Only
/// Linux exposes this without unsafe code; elsewhere a hang-up ends the command.
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

fn end() {
    // Taken, so that a second interrupt ends the command even if the first one is not handled in time.
    if let Some(cancel) = CANCEL.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return cancel.cancel();
    }
    release();
    std::process::exit(i32::from(INTERRUPTED_CODE));
}

/// Releases the leases that are held.
pub(crate) fn release() {
    let leases = LEASES.lock().unwrap_or_else(PoisonError::into_inner).clone();
    leases.iter().for_each(|leases| leases.release());
}
