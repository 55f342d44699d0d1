//! The value that every function of this crate works with.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};

use plimsoll::Millis;
use plimsoll_config::Environment;
use plimsoll_store::Clock;

use crate::leases::Leases;
use crate::report::{Level, Notice, Progress, Reporter, Silent, Work};

/// Environment of a host, and destination of its notices. Cheap to clone.
#[derive(Clone)]
pub struct Host {
    /// The directory, home and variables.
    pub env: Arc<Environment>,
    /// The database that the user named; otherwise the configured one.
    pub store: Option<PathBuf>,
    /// The leases that are held.
    pub leases: Arc<Leases>,
    reporter: Arc<dyn Reporter>,
    clock: Clock,
    /// Makes the notice about ignored settings of an untrusted project appear once, although some functions load the
    /// configuration again.
    pub(crate) left_out_reported: Arc<Once>,
    /// Done when unknown environment variables were reported.
    pub(crate) variables_reported: Arc<Once>,
}

impl Host {
    /// Creates a host that reports nothing.
    pub fn new(env: Environment) -> Host {
        Host {
            env: Arc::new(env),
            store: None,
            leases: Arc::default(),
            reporter: Arc::new(Silent),
            clock: Clock::default(),
            left_out_reported: Arc::new(Once::new()),
            variables_reported: Arc::new(Once::new()),
        }
    }

    /// Sets where notices and progress go.
    #[must_use]
    pub fn with_reporter(mut self, reporter: impl Reporter + 'static) -> Host {
        self.reporter = Arc::new(reporter);
        self
    }

    /// Sets the database that the user named.
    #[must_use]
    pub fn with_store(mut self, store: Option<PathBuf>) -> Host {
        self.store = store;
        self
    }

    /// Sets the registry of leases.
    #[must_use]
    pub fn with_leases(mut self, leases: Arc<Leases>) -> Host {
        self.leases = leases;
        self
    }

    /// Returns the same host in another directory.
    #[must_use]
    pub fn at(&self, directory: PathBuf) -> Host {
        let mut env = Environment::clone(&self.env);
        env.directory = directory;
        Host { env: Arc::new(env), left_out_reported: Arc::new(Once::new()), ..self.clone() }
    }

    /// The current directory.
    pub fn directory(&self) -> &Path {
        &self.env.directory
    }

    /// Formats a path with `~` for the home directory.
    pub fn short(&self, path: &Path) -> String {
        self.env.short(path)
    }

    /// The current time.
    pub fn now(&self) -> Millis {
        self.clock.now()
    }

    /// Reports a notice.
    pub fn notice(&self, notice: &Notice) {
        self.reporter.notice(notice);
    }

    /// Reports what was chosen or done.
    pub fn info(&self, text: impl Into<String>) {
        self.notice(&Notice::new(Level::Info, text));
    }

    /// Reports something that may not be expected.
    pub fn note(&self, text: impl Into<String>) {
        self.notice(&Notice::new(Level::Note, text));
    }

    /// Begins to report progress.
    pub fn progress(&self, what: &str, work: Work) -> Box<dyn Progress> {
        self.reporter.progress(what, work)
    }

    /// Does one step of work whose progress is reported.
    pub fn during<T>(&self, what: &str, work: impl FnOnce() -> T) -> T {
        let _progress = self.progress(what, Work::Step);
        work()
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("env", &self.env).field("store", &self.store).finish_non_exhaustive()
    }
}
