//! Counters in Prometheus' text format.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};

/// A recorder for the `metrics` crate. Clones share their values.
///
/// Install it as the recorder of the process to have it filled: `metrics::set_global_recorder(metrics.clone())`.
#[derive(Clone, Default)]
pub struct Metrics {
    series: Arc<Mutex<BTreeMap<(String, String), Series>>>,
    /// Descriptions of the values, by name.
    meanings: Arc<Mutex<BTreeMap<String, String>>>,
}

/// A value and its kind.
#[derive(Clone)]
enum Series {
    Counter(Arc<Number>),
    Gauge(Arc<Number>),
    Summary(Arc<Number>, Arc<Number>),
}

/// A number that is updated without a lock: an integer for counters, otherwise the bits of a float.
#[derive(Default)]
struct Number(AtomicU64);

impl Number {
    fn float(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }

    fn change(&self, change: impl Fn(f64) -> f64) {
        let changed = |bits| Some(change(f64::from_bits(bits)).to_bits());
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, changed);
    }
}

impl CounterFn for Number {
    fn increment(&self, value: u64) {
        let sum = |now: u64| Some(now.saturating_add(value));
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum);
    }

    fn absolute(&self, value: u64) {
        self.0.fetch_max(value, Ordering::Relaxed);
    }
}

impl GaugeFn for Number {
    fn increment(&self, value: f64) {
        self.change(|now| now + value);
    }

    fn decrement(&self, value: f64) {
        self.change(|now| now - value);
    }

    fn set(&self, value: f64) {
        self.change(|_| value);
    }
}

struct Observed(Arc<Number>, Arc<Number>);

impl HistogramFn for Observed {
    fn record(&self, value: f64) {
        CounterFn::increment(&*self.0, 1);
        GaugeFn::increment(&*self.1, value);
    }
}

impl Metrics {
    fn series(&self, key: &Key, make: fn() -> Series) -> Series {
        let labels: Vec<String> =
            key.labels().map(|label| format!("{}=\"{}\"", label.key(), escaped(label.value()))).collect();
        let place = (key.name().to_owned(), labels.join(","));
        let mut all = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(place).or_insert_with(make).clone()
    }

    fn describe(&self, name: &KeyName, meaning: &SharedString) {
        let mut meanings = self.meanings.lock().unwrap_or_else(PoisonError::into_inner);
        meanings.insert(name.as_str().to_owned(), meaning.to_string());
    }

    /// Renders all values.
    pub fn render(&self) -> String {
        let all = self.series.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let meanings = self.meanings.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (mut text, mut last) = (String::new(), String::new());
        for ((name, labels), series) in all {
            let kind = match &series {
                Series::Counter(_) => "counter",
                Series::Gauge(_) => "gauge",
                Series::Summary(..) => "summary",
            };
            if last != name {
                if let Some(meaning) = meanings.get(&name) {
                    let meaning = meaning.replace('\\', "\\\\").replace('\n', "\\n");
                    let _ = writeln!(text, "# HELP {name} {meaning}");
                }
                let _ = writeln!(text, "# TYPE {name} {kind}");
                last.clone_from(&name);
            }
            let labels = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
            // Writing to a string cannot fail.
            let _ = match series {
                Series::Counter(number) => {
                    writeln!(text, "{name}{labels} {}", number.0.load(Ordering::Relaxed))
                }
                Series::Gauge(number) => writeln!(text, "{name}{labels} {}", number.float()),
                Series::Summary(count, sum) => writeln!(
                    text,
                    "{name}_count{labels} {}\n{name}_sum{labels} {}",
                    count.0.load(Ordering::Relaxed),
                    sum.float()
                ),
            };
        }
        text
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Recorder for Metrics {
    fn describe_counter(&self, name: KeyName, _: Option<Unit>, meaning: SharedString) {
        self.describe(&name, &meaning);
    }

    fn describe_gauge(&self, name: KeyName, _: Option<Unit>, meaning: SharedString) {
        self.describe(&name, &meaning);
    }

    fn describe_histogram(&self, name: KeyName, _: Option<Unit>, meaning: SharedString) {
        self.describe(&name, &meaning);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        match self.series(key, || Series::Counter(Arc::default())) {
            Series::Counter(number) => Counter::from_arc(number),
            _ => Counter::noop(),
        }
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        match self.series(key, || Series::Gauge(Arc::default())) {
            Series::Gauge(number) => Gauge::from_arc(number),
            _ => Gauge::noop(),
        }
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        match self.series(key, || Series::Summary(Arc::default(), Arc::default())) {
            Series::Summary(count, sum) => Histogram::from_arc(Arc::new(Observed(count, sum))),
            _ => Histogram::noop(),
        }
    }
}

#[cfg(test)]
mod tests {
    use metrics::{counter, describe_counter, gauge, histogram};

    use super::Metrics;

    #[test]
    fn values_are_rendered_in_prometheus_text_format() {
        let metrics = Metrics::default();
        metrics::with_local_recorder(&metrics, || {
            describe_counter!("plimsoll_prunings_total", "Prunings.");
            counter!("plimsoll_prunings_total").increment(2);
            counter!("plimsoll_tool_calls_total", "tool" => "a\"b").increment(1);
            gauge!("plimsoll_cost_dollars").increment(0.5);
            histogram!("plimsoll_answer_seconds").record(1.5);
        });
        assert_eq!(
            metrics.render(),
            "# TYPE plimsoll_answer_seconds summary\n\
             plimsoll_answer_seconds_count 1\n\
             plimsoll_answer_seconds_sum 1.5\n\
             # TYPE plimsoll_cost_dollars gauge\n\
             plimsoll_cost_dollars 0.5\n\
             # HELP plimsoll_prunings_total Prunings.\n\
             # TYPE plimsoll_prunings_total counter\n\
             plimsoll_prunings_total 2\n\
             # TYPE plimsoll_tool_calls_total counter\n\
             plimsoll_tool_calls_total{tool=\"a\\\"b\"} 1\n"
        );
    }
}
