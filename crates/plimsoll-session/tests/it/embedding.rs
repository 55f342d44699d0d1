//! The example that `docs/EMBEDDING.md` explains: it does what the document says, and the document shows its code.

use std::sync::Arc;

use plimsoll_providers::{Endpoint, Secret, Wire};
use plimsoll_session::{Archive, Durability, Limits, Plan, Policy, Receipt};
use plimsoll_testkit::server::{Captured, ModelServer, Reply};
use serde_json::json;

#[path = "../../examples/agent.rs"]
#[allow(dead_code, unreachable_pub)]
mod agent;

use agent::Agent;

const LIMITS: Limits =
    Limits { context: plimsoll::Tokens(16_000), input: None, output: plimsoll::Tokens(2_000) };

/// A model that builds, looks up the error in the truncated output, and writes long stories.
fn answer(request: &Captured) -> Reply {
    let asked = request.last_user_text();
    if request.contains("You write the summary") || asked.contains("## Goal") {
        return Reply::new().text("## Goal\nFix `depth`, which made step 12345 fail.");
    }
    match (request.result("call_build"), request.result("call_recall")) {
        _ if asked.starts_with("Tell") => Reply::new().text("The tide comes and goes. ".repeat(300)),
        _ if asked.starts_with("What") => Reply::new().text("`depth` is not a number."),
        (None, _) => Reply::new().text("I will build it.").call("call_build", "build", json!({})),
        (Some(output), None) => {
            let handle = output.split("recall ").nth(1).unwrap_or_default();
            let handle: String = handle.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            Reply::new().call("call_recall", "recall", json!({ "handle": handle, "search": "^error" }))
        }
        (Some(_), Some(_)) => Reply::new().text("Step 12345 failed."),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_calls_a_tool_spills_compacts_and_resumes() {
    let server = ModelServer::answering(answer).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("agent.db");
    let endpoint =
        Endpoint::new(Wire::Anthropic, &server.url(), Some(Secret::new("sk-test-0123456789abcdef")));
    let agent = Agent::new(endpoint.unwrap(), "scripted", LIMITS).unwrap();

    // A tool call, and an output that is longer than the window.
    let archive = Arc::new(Archive::open(&database, &Policy::default(), Durability::Process).unwrap());
    let mut session = agent.open(&archive, None).await.unwrap();
    let id = session.id().clone();
    assert_eq!(agent.run(&mut session, "Build it.").await.unwrap(), "Step 12345 failed.");
    let last = server.last().unwrap();
    let output = last.result("call_build").unwrap();
    assert!(
        (40_000..60_000).contains(&output.len()) && !output.contains("step 12345 failed"),
        "{} bytes",
        output.len()
    );
    assert!(last.result("call_recall").unwrap().contains("error: step 12345 failed"), "{last:?}");
    assert!(matches!(session.receipts().await.unwrap()[0].plan, Plan::Truncate(_)));

    // Long answers, until the window is full and the model summarises it.
    for number in 0..12 {
        agent.run(&mut session, &format!("Tell story {number}.")).await.unwrap();
    }
    let mut compactions: Vec<Receipt> = session.receipts().await.unwrap();
    compactions.retain(|receipt| matches!(receipt.plan, Plan::Compact(_)));
    assert!(!compactions.is_empty());
    session.close().await.unwrap();
    drop(archive);

    // Another process continues the session.
    let archive = Arc::new(Archive::open(&database, &Policy::default(), Durability::Process).unwrap());
    let mut session = agent.open(&archive, Some(id)).await.unwrap();
    assert_eq!(agent.run(&mut session, "What failed?").await.unwrap(), "`depth` is not a number.");
    let last = server.last().unwrap();
    assert!(
        last.contains("which made step 12345 fail") && !last.contains("Tell story 0."),
        "{}",
        last.outline()
    );
    for receipt in compactions.iter().rev() {
        session.undo(&receipt.id).await.unwrap();
    }
    let shown = format!("{:?}", session.window().await.unwrap());
    assert!(shown.contains("Tell story 0."), "nothing is lost");
    session.close().await.unwrap();
}

/// The code of the document, block after block, is the file that runs.
#[test]
fn the_document_shows_the_code_that_runs() {
    let example = include_str!("../../examples/agent.rs");
    let document = include_str!("../../../../docs/EMBEDDING.md");
    let mut shown = Vec::new();
    let mut is_code = false;
    for line in document.lines() {
        match line {
            "```rust" => is_code = true,
            "```" => is_code = false,
            line if is_code => shown.push(line.trim()),
            _ => {}
        }
    }
    let code = |lines: Vec<&'static str>| -> Vec<&'static str> {
        lines.into_iter().map(str::trim).filter(|line| !line.is_empty()).collect()
    };
    let (shown, run) = (code(shown), code(example.lines().collect()));
    let differs = shown.iter().zip(&run).position(|(shown, run)| shown != run);
    if let Some(at) = differs {
        panic!("line {at} of the document's code is `{}`, of the example `{}`", shown[at], run[at]);
    }
    assert_eq!(shown.len(), run.len(), "the document has all of the example");
}
