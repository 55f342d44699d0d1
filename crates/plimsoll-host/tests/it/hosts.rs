//! Several hosts in one process, as a server has them.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use plimsoll_host::{
    Environment, ErrorKind, Flags, Host, Importer, InputSource, InputSpec, Notice, Reporter, Work,
};
use plimsoll_import::Scope;
use serde_json::json;
use tempfile::TempDir;

/// A home with a project in it.
pub(crate) struct Place {
    dir: TempDir,
    project: PathBuf,
}

impl Place {
    pub(crate) fn new() -> Place {
        let dir = TempDir::new().unwrap();
        let project = dir.path().join("project");
        std::fs::create_dir_all(&project).unwrap();
        Place { dir, project }
    }

    pub(crate) fn host(&self) -> Host {
        let home = self.dir.path().to_str().unwrap().to_owned();
        Host::new(Environment::new(self.project.clone(), [("HOME".to_owned(), home)]))
    }

    pub(crate) fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }
}

/// Records notices and progress.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<String>>>);

impl Reporter for Recorder {
    fn notice(&self, notice: &Notice) {
        self.0.lock().unwrap().push(notice.to_string());
    }

    fn progress(&self, what: &str, _: Work) -> Box<dyn plimsoll_host::Progress> {
        self.0.lock().unwrap().push(format!("[{what}]"));
        Box::new(plimsoll_host::Silent)
    }
}

fn chat(words: &str) -> String {
    json!({ "messages": [{ "role": "user", "content": words }, { "role": "assistant", "content": "Done." }] })
        .to_string()
}

fn file(path: PathBuf) -> InputSpec {
    InputSpec { source: InputSource::File(path, None), strict: true, flags: Flags::default() }
}

#[test]
fn sessions_of_one_directory_are_not_those_of_another() {
    let place = Place::new();
    let (one, other) = (place.write("one/a.json", &chat("One")), place.write("other/b.json", &chat("Other")));
    let host = place.host();
    let config = host.config(&Flags::default()).unwrap();
    for path in [one, other] {
        let there = host.at(path.parent().unwrap().to_owned());
        Importer::new(&there, &config).import(file(path), false).unwrap();
    }
    for (directory, words) in [("one", "One"), ("other", "Other")] {
        let there = host.at(place.dir.path().join(directory));
        let newest = there.open_default().unwrap().session_or_newest(None, &there).unwrap();
        assert_eq!(newest.title, words);
    }
    let none = host.open_default().unwrap().session_or_newest(None, &host).unwrap_err();
    assert_eq!(none.kind(), ErrorKind::Usage, "{none}");
}

#[test]
fn notices_and_progress_go_to_the_reporter_and_nowhere_else() {
    let place = Place::new();
    let path = place.write("project/a.json", &chat("Hello"));
    let recorder = Recorder::default();
    let host = place.host().with_reporter(recorder.clone());
    let config = host.config(&Flags::default()).unwrap();
    Importer::new(&host, &config).import(file(path.clone()), false).unwrap();
    let input = InputSpec { source: InputSource::Newest, strict: false, flags: Flags::default() };
    host.input(input, Scope::All).unwrap();
    let reported = recorder.0.lock().unwrap().clone();
    assert!(reported.contains(&format!("[reading `{}`]", path.display())), "{reported:?}");
    assert!(reported.iter().any(|text| text.starts_with("stored `") && text.contains(": 2 messages")));
    assert!(
        reported.last().unwrap().starts_with("Plimsoll: `"),
        "the chosen session is reported: {reported:?}"
    );
}

#[test]
fn an_error_has_its_kind_hints_and_source() {
    let place = Place::new();
    let host = place.host();
    let missing = host.transcript(file(place.project.join("no such file"))).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::Usage);
    assert!(missing.hints()[0].contains("plimsoll sessions --all"), "{missing:?}");
    assert_eq!(missing.io_kind(), Some(std::io::ErrorKind::NotFound));
    let none = host.open_default().unwrap_err();
    assert!(none.message().contains("no session database at `~/"), "{none}");
}

#[test]
fn a_session_that_is_changed_is_registered_until_it_is_released() {
    let place = Place::new();
    let host = place.host();
    let config = host.config(&Flags::default()).unwrap();
    let path = place.write("project/a.json", &chat("Hello"));
    let id = Importer::new(&host, &config).import(file(path), false).unwrap().id;
    let opened = host.open_store(&config).unwrap();
    let lease = opened.archive.store().lease(&id, "a server", std::time::Duration::from_secs(60)).unwrap();
    host.leases.hold(&opened.archive, &lease);
    let stored = host.stored_session(Some(id.as_str()), &config, None).unwrap();
    let refused = stored.pin("Done.", &config, false, &host).unwrap_err();
    assert!(refused.hints().contains(&"pass `--force` to take it over".to_owned()), "{refused:?}");
    host.leases.release();
    stored.pin("Done.", &config, false, &host).unwrap();
}
