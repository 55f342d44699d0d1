//! The counters of the token management guide.

use std::sync::OnceLock;

use plimsoll_server::Metrics;
use plimsoll_testkit::server::Reply;
use serde_json::json;

use crate::support::{TestServer, prompt};

/// The recorder of this process, which has only one.
fn recorder() -> Metrics {
    static RECORDER: OnceLock<Metrics> = OnceLock::new();
    let install = || {
        let metrics = Metrics::default();
        metrics::set_global_recorder(metrics.clone()).unwrap();
        metrics
    };
    RECORDER.get_or_init(install).clone()
}

fn value(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_counters_of_the_guide_are_there_from_the_start_and_count_prunes_over_http() {
    let server = TestServer::with(|options| {
        options.agent.allow = vec!["all".to_owned()];
        options.metrics = Some(recorder());
    })
    .await;
    let before = server.get("/plimsoll/metrics").await.body;
    for name in [
        "plimsoll_truncations_total",
        "plimsoll_prunings_total",
        "plimsoll_compactions_total",
        "plimsoll_truncated_bytes_total",
        "plimsoll_pruned_tokens_total",
        "plimsoll_compacted_tokens_total",
        "plimsoll_spill_files_total",
        "plimsoll_spill_bytes_total",
    ] {
        value(&before, name);
        assert!(before.contains(&format!("# HELP {name} ")), "{name} has no description: {before}");
        assert!(before.contains(&format!("# TYPE {name} counter")), "{before}");
    }
    let id = server.session().await;
    let command = json!({ "command": "seq 1 2000", "description": "count" });
    server.model.push(Reply::new().call("call_1", "bash", command));
    server.post(&format!("/session/{id}/message"), prompt("count")).await.ok();
    server.prompt(&id, "thanks").await;
    let receipt =
        server.post(&format!("/plimsoll/session/{id}/prune"), json!({ "tools": ["bash"] })).await.ok();
    assert!(receipt["id"].is_string(), "{receipt}");
    let after = server.get("/plimsoll/metrics").await.body;
    let grown = |name: &str| value(&after, name) - value(&before, name);
    assert_eq!(grown("plimsoll_prunings_total"), 1);
    assert!(grown("plimsoll_pruned_tokens_total") > 100, "{after}");
}
