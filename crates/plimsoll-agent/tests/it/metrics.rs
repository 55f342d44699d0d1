//! R156: counters.

use std::collections::BTreeMap;

use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use plimsoll_agent::metrics::{self as names, TokenMetrics};
use plimsoll_providers::Wire;
use plimsoll_testkit::server::{Captured, Fault, ModelServer, Reply};
use serde_json::json;

use crate::support::{Dock, SUMMARY, is_summary, lines, run};

#[test]
fn r156_the_eight_figures_and_those_of_the_model_after_a_scripted_run() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (reductions, reported) = metrics::with_local_recorder(&recorder, || {
        runtime.block_on(async {
            let mut dock = Dock::on(
                Wire::Anthropic,
                ModelServer::answering(|request: &Captured| match request.call_ids().len() {
                    _ if is_summary(request) => Reply::new().text(SUMMARY),
                    made if request.last_user_text().contains("Read") && made % 4 != 3 => {
                        let input = json!({ "path": "big.txt", "limit": 900 + request.tokens });
                        Reply::new().call(format!("call_{}", request.tokens), "read", input)
                    }
                    _ => Reply::new().text("Read."),
                })
                .unwrap(),
            )
            .with_policy(|spec| {
                spec.prune.protect_tokens = plimsoll::Tokens(4_000);
                spec.prune.min_tokens = plimsoll::Tokens(1_000);
                spec.prune.active_turns = 0;
            });
            dock.agent.model.price =
                plimsoll_tokens::ModelTable::default().find("claude-sonnet-4-6").unwrap().price;
            dock.agent.profile.limits.steps = 20;
            dock.write("big.txt", &lines(900));
            dock.server.push(Reply::failing(Fault::status(529)));
            let mut conversation = dock.begin().await;
            let (mut all, mut reported) = (Vec::new(), TokenMetrics::default());
            for turn in 0..12 {
                let report = run(&mut conversation, &format!("Read {turn}\n{}", lines(120))).await;
                all.extend(report.reductions);
                reported += report.metrics;
            }
            (all, reported)
        })
    });
    let mut counted: BTreeMap<String, f64> = BTreeMap::new();
    for (key, _, _, value) in snapshotter.snapshot().into_vec() {
        let value = match value {
            DebugValue::Counter(count) => count as f64,
            DebugValue::Gauge(value) => value.into_inner(),
            DebugValue::Histogram(values) => values.len() as f64,
        };
        *counted.entry(key.key().name().to_owned()).or_default() += value;
    }
    let of = |kind: &str| reductions.iter().filter(|figures| figures.kind.name() == kind).count() as f64;
    let count = |name: &str| counted.get(name).copied().unwrap_or_default();
    assert!(of("truncate") > 0.0 && of("prune") > 0.0 && of("compact") > 0.0, "{reductions:?}");
    assert_eq!(count(names::TRUNCATIONS), of("truncate"));
    assert_eq!(count(names::PRUNINGS), of("prune"));
    assert_eq!(count(names::COMPACTIONS), of("compact"));
    assert_eq!(count(names::SPILL_FILES), of("truncate"));
    // The file is read with line numbers, so the output is larger than the file.
    assert!(count(names::SPILL_BYTES) > of("truncate") * lines(900).len() as f64);
    assert!(count(names::BYTES_TRUNCATED) > 0.0 && count(names::BYTES_TRUNCATED) < count(names::SPILL_BYTES));
    assert!(count(names::TOKENS_PRUNED) > 1_000.0 && count(names::TOKENS_COMPACTED) > 1_000.0);
    // The report of each run has the same figures, under the guide's names.
    let reported = serde_json::to_value(reported).unwrap();
    for (name, key) in [
        (names::TRUNCATIONS, "totalTruncations"),
        (names::PRUNINGS, "totalPrunings"),
        (names::COMPACTIONS, "totalCompactions"),
        (names::BYTES_TRUNCATED, "bytesTruncated"),
        (names::TOKENS_PRUNED, "tokensPruned"),
        (names::TOKENS_COMPACTED, "tokensCompacted"),
        (names::SPILL_FILES, "spillFilesCreated"),
        (names::SPILL_BYTES, "spillBytesWritten"),
    ] {
        assert_eq!(reported[key].as_f64().unwrap(), count(name), "{key}");
    }
    assert_eq!(count(names::RETRIES), 1.0);
    assert!(count(names::REQUESTS) > 6.0 && count(names::LATENCY) == count(names::REQUESTS));
    assert!(count(names::TOKENS_IN) > 0.0 && count(names::TOKENS_OUT) > 0.0);
    assert!(count(names::TOKENS_CACHED) > 0.0 && count(names::TOKENS_WRITTEN) > 0.0);
    assert!(count(names::COST) > 0.0 && count(names::TOOL_CALLS) > 0.0);
}
