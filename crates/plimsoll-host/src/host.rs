//! The host: environment and destination of notices, for all functions of this crate.

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
    /// Current directory, home directory and variables.
    pub env: Arc<Environment>,
    /// Database set by the user; the configured one if `None`.
    pub store: Option<PathBuf>,
    /// Leases held by this host.
    pub leases: Arc<Leases>,
    reporter: Arc<dyn Reporter>,
    clock: Clock,
    /// Ensures that ignored settings of an untrusted project are reported once, although some functions load the configuration
    /// again.
    pub(crate) left_out_reported: Arc<Once>,
    /// Ensures that unknown environment variables are reported once.
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

    /// Sets the receiver of notices and progress.
    #[must_use]
    pub fn with_reporter(mut self, reporter: impl Reporter + 'static) -> Host {
        self.reporter = Arc::new(reporter);
        self
    }

    /// Sets the database to use instead of the configured one.
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

    /// Returns the current directory.
    pub fn directory(&self) -> &Path {
        &self.env.directory
    }

    /// Formats a path with `~` for the home directory.
    pub fn short(&self, path: &Path) -> String {
        self.env.short(path)
    }

    /// Returns the current time.
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

    /// Reports something that the user may not expect.
    pub fn note(&self, text: impl Into<String>) {
        self.notice(&Notice::new(Level::Note, text));
    }

    /// Begins to report progress.
    pub fn progress(&self, what: &str, work: Work) -> Box<dyn Progress> {
        self.reporter.progress(what, work)
    }

    /// Runs one step of work and reports its progress.
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
