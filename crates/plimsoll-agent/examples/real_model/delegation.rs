//! A parent that reads a file and forks two tasks; the calls are scripted, every answer is the model's own.

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use plimsoll::Policy;
use plimsoll_agent::tasks::{RosterAgent, TaskBoard, TaskLimits, TaskStatus};
use plimsoll_agent::{Agent, ToolSet};
use plimsoll_store::{Archive, Durability};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::shim::{ScriptedAnswer, Shim, check_exchanges};
use crate::upstream::Upstream;
use crate::{Way, model};

/// Only the parent reads it.
const SECRET: &str = "The harbour of Tobermory is 31 metres deep at the north quay.";
const PROMPTS: [&str; 2] = ["Say in one sentence how deep the harbour is.", "Name the harbour."];

pub(crate) async fn run(upstream: &Upstream) -> Result<String, Box<dyn Error>> {
    let shim = Shim::start(upstream.clone())?;
    let directory = tempfile::tempdir()?;
    std::fs::write(directory.path().join("chart.txt"), format!("{SECRET}\n"))?;
    let policy = Arc::new(Way::Configured.policy()?);
    let path = directory.path().join("plimsoll.db");
    let archive = Arc::new(Archive::open(path, &Policy::default(), Durability::Process)?);
    let mut agent =
        Agent::new(Arc::clone(&archive), model(&shim.url(), Way::Configured.limits())?, directory.path());
    agent.profile.tools =
        ToolSet::builtin(&policy, &agent.sandbox).filter(|tool| matches!(tool, "read" | "recall"));
    agent.policy = policy;
    let template = agent.clone();
    let roster = move |_: &str, _: Option<&str>| {
        Ok(RosterAgent { agent: template.clone(), is_own_model: false, fork: None })
    };
    let board = TaskBoard::new(archive, Arc::new(roster), TaskLimits::default(), "the example");
    let mut agent = agent.with_tasks(&board);
    agent.profile.awaits_tasks = true;
    let calls = PROMPTS.map(|prompt| {
        let input = json!({ "description": prompt, "prompt": prompt, "agent": "build", "fork": true });
        ("background_task", input)
    });
    shim.script(vec![
        ScriptedAnswer { words: "I read the chart.", calls: vec![("read", json!({ "path": "chart.txt" }))] },
        ScriptedAnswer { words: "I hand both questions on.", calls: calls.into() },
    ]);
    let mut conversation = agent.begin("").await?;
    let started = Instant::now();
    let report = conversation.run("Read the chart and find out about it.", &CancellationToken::new()).await?;
    let took = started.elapsed().as_secs_f64();
    check_exchanges(&shim.exchanges())?;
    let mut text =
        format!("delegation\n  parent            {} answers, {took:.0} s: {:?}\n", report.steps, report.text);
    for (task, prompt) in board.tasks(Some(conversation.session())).await?.iter().zip(PROMPTS) {
        if task.status != TaskStatus::Completed {
            return Err(format!("the task {prompt:?} is {}: {:?}", task.status, task.data.error).into());
        }
        let wanted = format!("<task>\n{prompt}\n</task>");
        let first = shim.requests().into_iter().find(|request| request.contains(&wanted));
        let first = first.ok_or("a task's request is missing")?;
        if !first.contains(SECRET) {
            return Err(format!("the request of {prompt:?} does not hold what its parent read").into());
        }
        text.push_str(&format!(
            "  task              its request holds what only its parent had read; {:?}\n",
            task.data.result.as_deref().unwrap_or_default()
        ));
    }
    Ok(text.trim_end().to_owned())
}
