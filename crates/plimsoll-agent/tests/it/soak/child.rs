//! The process that runs turns until it is killed.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use plimsoll::Preset;
use plimsoll_agent::{Access, Agent, AgentError, Event, RunLimits, Subject, Tool, ToolCall, ToolError};
use plimsoll_providers::{ClientOptions, RetryPolicy, ToolSpec};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{LIFE, Life, SESSION};
use crate::journal::Journal;
use crate::support::{die, model_with, open_archive};

/// More requests than any turn can make: ten steps, each rejected, interrupted and summarised as often as possible.
const MAX_REQUESTS: u64 = 200;

/// The agent of a session, in the child and after it.
pub(super) fn agent(directory: &Path, life: &Life) -> Agent {
    let retry = RetryPolicy {
        retries: 3,
        base: Duration::from_millis(2),
        longest: Duration::from_millis(20),
        ..RetryPolicy::default()
    };
    let options = ClientOptions {
        idle: Duration::from_millis(600),
        event_limit: super::faults::EVENT_LIMIT,
        retry,
        ..ClientOptions::default()
    };
    let mut model = model_with(life.wire(), &life.url, options);
    model.limits = life.is_known.then(|| plimsoll::Limits::new(life.window, life.window / 8));
    let mut agent = Agent::new(open_archive(directory), model, &directory.join("project"));
    agent.policy = Arc::new(life.preset().policy());
    agent.take_over = plimsoll_store::TakeOver::Always;
    agent.profile.limits = RunLimits { steps: 10, ..RunLimits::default() };
    agent.profile.tools = agent.profile.tools.with(Flood::new());
    agent
}

/// The child process: does nothing unless it was started as one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_soaked_child() {
    let Ok(life) = std::env::var(LIFE) else { return };
    let life: Life = serde_json::from_str(&life).unwrap();
    // A panic on any thread fails the test, even one that the loop would survive.
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        usual(panic);
        std::process::abort();
    }));
    let directory = Path::new(&life.directory);
    let mut agent = agent(directory, &life);
    let session = SESSION.into();
    let journal = Arc::new(Journal::new(Arc::clone(&agent.archive), SESSION.into(), &life.journal()));
    let (output, requests) = (AtomicU64::new(0), Arc::new(AtomicU64::new(0)));
    let (noted, counted, die_at) = (Arc::clone(&journal), Arc::clone(&requests), life.die_at);
    let was_refused = Arc::new(AtomicBool::new(false));
    let refused = Arc::clone(&was_refused);
    agent.events = Arc::new(move |event: &Event| {
        noted.note(event);
        refused.fetch_or(matches!(event, Event::Refused { .. }), Ordering::SeqCst);
        if matches!(event, Event::Requested { .. } | Event::Retrying { .. } | Event::Summarising { .. }) {
            counted.fetch_add(1, Ordering::SeqCst);
        }
        if output.fetch_add(1, Ordering::SeqCst) + 1 == die_at {
            die();
        }
    });
    let mut conversation = agent.open(&session).await.unwrap();
    let cancel = CancellationToken::new();
    let mut turn = life.first;
    let mut resumes = life.resumes;
    while turn < life.end || resumes {
        requests.store(0, Ordering::SeqCst);
        let prompt = format!("Turn {turn}: look at the charts, and say what has changed.");
        let run = async {
            match resumes {
                true => conversation.resume(&cancel).await,
                false => conversation.run(&prompt, &cancel).await,
            }
        };
        let ended = tokio::time::timeout(Duration::from_secs(120), run).await;
        let how = match ended.expect("a turn takes two minutes") {
            Ok(report) => serde_json::to_value(&report.end).unwrap()["how"].as_str().unwrap().to_owned(),
            Err(error @ (AgentError::Provider(_) | AgentError::Refused { .. })) => error.name().to_owned(),
            // A provider that refuses a small request as too long is believed as long as the process lives, so that
            // nothing may fit any more; once it has recovered, the last turn has to go through. The presets that follow
            // a document have no shedding, and may not fit on their own. Neither have they another way if the provider
            // fails while it summarises.
            Err(error @ AgentError::NotSummarised(_)) if life.preset() != Preset::Plimsoll => {
                error.name().to_owned()
            }
            Err(error @ AgentError::CannotFit(_))
                if was_refused.load(Ordering::SeqCst) || life.preset() != Preset::Plimsoll =>
            {
                error.name().to_owned()
            }
            Err(error) => panic!("turn {turn} failed: {}: {error}", error.name()),
        };
        let count = requests.load(Ordering::SeqCst);
        assert!(count <= MAX_REQUESTS, "turn {turn} made {count} requests");
        journal.remark(format!("turn {how} {count}"));
        turn += u64::from(!resumes);
        resumes = false;
    }
}

/// Prints as much as requested.
struct Flood {
    spec: ToolSpec,
}

impl Flood {
    fn new() -> Flood {
        let schema = json!({ "type": "object", "properties": { "bytes": { "type": "integer" } } });
        Flood { spec: ToolSpec { name: "flood".into(), description: "Prints.".into(), schema } }
    }
}

impl Tool for Flood {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self) -> Access {
        Access::Session
    }

    fn subject(&self, _: &Value, _: &Path) -> Result<Subject, ToolError> {
        Ok(Subject::None)
    }

    fn run(&self, call: &ToolCall<'_>, out: &mut dyn Write) -> Result<(), ToolError> {
        let mut left = call.input["bytes"].as_u64().unwrap_or_default();
        for line in 0_u64.. {
            if left == 0 {
                break;
            }
            let words =
                format!("{line}: water {} and more water\n", line.wrapping_mul(2_654_435_761) % 9_973);
            let piece = &words.as_bytes()[..words.len().min(left as usize)];
            out.write_all(piece)?;
            left -= piece.len() as u64;
        }
        Ok(())
    }
}
