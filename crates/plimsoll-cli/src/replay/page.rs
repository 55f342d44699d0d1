//! A replay as one page: no script, nothing loaded from elsewhere, readable on a phone and on paper.

use plimsoll_replay::Report;

use super::chart::{self, Size};
use super::{Replays, SessionReplay, figures, finding};

/// The page.
pub(super) fn page(replays: &Replays) -> String {
    let sessions = replays.sessions.len();
    let calls = replays.total.first().map(|total| total.calls).unwrap_or_default();
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"generator\" content=\"plimsoll {}\">\n\
         <title>Plimsoll replay: {}</title>\n<style>{}</style>\n</head>\n<body>\n<main>\n",
        env!("CARGO_PKG_VERSION"),
        escape(&title(replays)),
        STYLE
    );
    html += &format!(
        "<header><h1>What would each policy have done?</h1>\n<p>{} replayed, {} calls of the model, {}.</p></header>\n",
        if sessions == 1 { escape(&replays.sessions[0].name) } else { format!("{sessions} sessions") },
        figures::count(calls),
        window_words(replays)
    );
    let found = match replays.sessions.as_slice() {
        [one] => finding::of_session(one),
        _ => finding::headline(&replays.total),
    };
    html += &format!("<p class=\"finding\">{}</p>\n", code(&escape(&found)));
    html += &format!("<section>\n<h2>{}</h2>\n", if sessions == 1 { "Outcome" } else { "All sessions" });
    html += &table(&replays.total);
    html += "</section>\n<section>\n<h2>Cost against recall</h2>\n";
    html += &figure(|size| chart::scatter(&replays.total, size));
    html += "<p class=\"note\">Recall: of what a call needed from tool outputs, the share that was in the window or was \
             brought back, which is paid for. 0 % is a policy that shows no tool output, 100 % one that shows all. A \
             cross is a policy under which calls did not fit. Up and to the left is better.</p>\n</section>\n";
    for session in &replays.sessions {
        html += &section(session, session.context, sessions > 1);
    }
    html += &format!("<footer>{EXPLANATION}</footer>\n</main>\n</body>\n</html>\n");
    html
}

/// Words between backquotes as code.
fn code(text: &str) -> String {
    let pieces = text.split('`').enumerate();
    pieces
        .map(|(at, piece)| if at % 2 == 1 { format!("<code>{piece}</code>") } else { piece.to_owned() })
        .collect()
}

/// In which windows sessions were tried.
fn window_words(replays: &Replays) -> String {
    let one = replays.context.or(match replays.sessions.as_slice() {
        [one] => Some(one.context),
        _ => None,
    });
    one.map_or_else(
        || "each session in its own window".to_owned(),
        |context| format!("in a window of {} tokens", figures::count(context)),
    )
}

fn title(replays: &Replays) -> String {
    match replays.sessions.as_slice() {
        [one] => one.name.clone(),
        many => format!("{} sessions", many.len()),
    }
}

/// One session: how its window went, what fired, and the figures where they are not those of the whole.
fn section(session: &SessionReplay, context: u64, with_table: bool) -> String {
    let about = [session.title.clone(), session.model.clone(), Some(session.format.clone())];
    let about: Vec<String> = about.into_iter().flatten().map(|text| escape(&text)).collect();
    let mut html = format!(
        "<section class=\"session\">\n<h2>{}</h2>\n<p>{}</p>\n",
        escape(&session.name),
        about.join(" · ")
    );
    html += "<h3>The window, call by call</h3>\n";
    html += &figure(|size| chart::windows(&session.policies, context, size));
    html += &legend(&session.policies);
    if with_table {
        html += &table(&session.policies);
    }
    html + "</section>\n"
}

/// The same chart for screens and for phones.
fn figure(draw: impl Fn(Size) -> String) -> String {
    format!(
        "<figure class=\"wide\">{}</figure>\n<figure class=\"narrow\">{}</figure>\n",
        draw(Size::Wide),
        draw(Size::Narrow)
    )
}

fn legend(reports: &[Report]) -> String {
    let policies: String = reports
        .iter()
        .enumerate()
        .map(|(at, report)| format!("<li>{} {}</li>", chart::swatch(at), escape(&report.policy)))
        .collect();
    let kinds: String = chart::KINDS
        .iter()
        .filter(|(kind, _)| reports.iter().any(|report| report.fired.contains_key(*kind)))
        .map(|(kind, _)| format!("<li>{} {kind}</li>", chart::symbol(kind)))
        .collect();
    let dead = if reports.iter().any(|report| report.deaths > 0) {
        format!("<li>{} did not fit</li>", chart::symbol("dead"))
    } else {
        String::new()
    };
    format!("<ul class=\"legend\">{policies}</ul>\n<ul class=\"legend kinds\">{kinds}{dead}</ul>\n")
}

fn table(reports: &[Report]) -> String {
    let mut html = String::from("<div class=\"scroll\"><table>\n<thead><tr>");
    for heading in figures::HEADINGS {
        html += &format!("<th scope=\"col\">{heading}</th>");
    }
    html += "</tr></thead>\n<tbody>\n";
    for (at, report) in reports.iter().enumerate() {
        let cells = figures::row(report);
        html += &format!("<tr><th scope=\"row\">{} {}</th>", chart::swatch(at), escape(&cells[0]));
        for (cell, heading) in cells[1..].iter().zip(&figures::HEADINGS[1..]) {
            let class = match *heading {
                "deaths" if report.deaths > 0 => " class=\"bad\"",
                "reductions" => " class=\"words\"",
                _ => "",
            };
            html += &format!("<td{class}>{}</td>", escape(cell));
        }
        html += "</tr>\n";
    }
    html + "</tbody>\n</table></div>\n"
}

/// Text as it may stand in HTML.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            control if control.is_control() && control != '\n' => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}

const EXPLANATION: &str = "<h2>How to read this</h2>\n<dl>\n\
    <dt>tokens</dt><dd>As the session&#39;s recorded usage counts them, with what it hides in every request; where \
    nothing is recorded, characters over four. All policies are weighed alike.</dd>\n\
    <dt>cost</dt><dd>What a request has in common with the one before is read from the cache (cached), the rest is \
    written to it; the cache lives as long as the session records. Calls that did not fit cost nothing, so compare \
    costs only where there are no deaths.</dd>\n\
    <dt>deaths</dt><dd>Recorded calls whose request and answer would not have fitted into the window.</dd>\n\
    <dt>recall</dt><dd>Calls need paths, names, numbers and hashes that a tool mentioned before. Counted is what \
    nothing but tool outputs mentions, and what a policy has lost although something else repeated it; the mean over \
    the calls. What is in the window is there; what is not is brought back where the policy has handles, and lost \
    otherwise.</dd>\n\
    <dt>recalls</dt><dd>What bringing back costs: the model&#39;s call, the window once more, and what comes back.</dd>\n\
    <dt>summaries</dt><dd>Made without a model, unless the recording has one at that point; they cost what a \
    model&#39;s would, and count only for what a summariser was sent.</dd>\n</dl>";

const STYLE: &str = "
:root{color-scheme:light dark;--ink:#1b2733;--quiet:#5b6b7a;--rule:#d5dde4;--page:#fff;--panel:#f6f8fa;--bad:#b3261e}
@media (prefers-color-scheme:dark){:root{--ink:#e6edf3;--quiet:#9aa9b7;--rule:#33414e;--page:#10161c;--panel:#18212a;--bad:#ff8a80}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:16px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}
main{max-width:1000px;margin:0 auto;padding:1.5rem 1rem 3rem}
h1{font-size:1.7rem;line-height:1.2;margin:.2em 0}
h2{font-size:1.2rem;margin:2rem 0 .3rem;overflow-wrap:anywhere}

.finding{font-size:1.15rem;line-height:1.4;margin:.8rem 0;padding:.7rem .9rem;background:var(--panel);border-left:4px solid #0072b2}
code{font-family:ui-monospace,monospace;font-size:.95em}
h3{font-size:1rem;margin:1rem 0 .2rem}
p{margin:.3rem 0}
header p,.note,footer,.session>p{color:var(--quiet);overflow-wrap:anywhere}
.note,footer{font-size:.9rem}
figure{margin:.5rem 0}
figure svg{display:block;width:100%;height:auto}
.narrow{display:none}
svg text{fill:var(--quiet);font:12px system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}
svg .name{fill:var(--ink)}
svg .axis{stroke:var(--rule);fill:none}
svg .limit{stroke:var(--bad);stroke-dasharray:6 4;fill:none}
svg .dead{stroke:var(--bad)}
svg .limit-name{fill:var(--bad)}
.scroll{overflow-x:auto;margin:.5rem 0}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.9rem;width:100%}
th,td{padding:.35rem .6rem;text-align:right;white-space:nowrap;border-bottom:1px solid var(--rule)}
thead th{color:var(--quiet);font-weight:600;vertical-align:bottom}
th:first-child,td.words,thead th:last-child{text-align:left}
td.words{white-space:normal;min-width:11rem}
td.bad{color:var(--bad);font-weight:600}
th:first-child{position:sticky;left:0;background:var(--page)}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.2rem 1.1rem;margin:.4rem 0;padding:0;font-size:.9rem}
.kinds{color:var(--quiet)}
.swatch,.symbol{vertical-align:-2px}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1rem}
dt{font-weight:600;color:var(--ink)}
dd{margin:0}
@media (max-width:640px){.wide{display:none}.narrow{display:block}dl{display:block}dd{margin:0 0 .5rem}main{padding:1rem .8rem 2rem}}
@media print{:root{--ink:#000;--quiet:#444;--rule:#bbb;--page:#fff;--bad:#a00}.wide{display:block}.narrow{display:none}
main{max-width:none;padding:0}section{break-inside:avoid}.session{break-before:page}td,th{padding:.2rem .35rem}
table{font-size:.75rem}body{font-size:12px;print-color-adjust:exact;-webkit-print-color-adjust:exact}.scroll{overflow:visible}}
";

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn nothing_of_a_transcript_becomes_markup() {
        assert_eq!(
            escape("<b a=\"1\">&'\u{1b}</b>"),
            "&lt;b a=&quot;1&quot;&gt;&amp;&#39;\u{fffd}&lt;/b&gt;"
        );
    }
}
