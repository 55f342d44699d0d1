//! A replay as an HTML page without scripts or external resources, readable on a phone and on paper.

use plimsoll_host::{FREE_PRICE, Replays, RuleSource, SessionReplay, list_price};
use plimsoll_replay::{Prices, Report};

use super::chart::{self, Size};
use super::figures::{self, Figure};
use super::listing::{self, ListedPrice};
use super::{finding, show};
use crate::output::counted;

/// Renders the page.
pub(super) fn page(replays: &Replays, prices: &Prices) -> String {
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
        "<header><h1>What would each policy have done?</h1>\n<p>{} replayed, {} of the model, {}.</p></header>\n",
        escape(&title(replays)),
        counted(calls as usize, "call"),
        window_words(replays)
    );
    let found = match replays.sessions.as_slice() {
        [one] => finding::of_session(one),
        _ => finding::headline(&replays.total),
    };
    html += &format!("<p class=\"finding\">{}</p>\n", code(&escape(&found)));
    html += &format!("<section>\n<h2>{}</h2>\n", if sessions == 1 { "Outcome" } else { "All sessions" });
    let columns = if sessions == 1 { figures::OUTCOME } else { figures::OUTCOME_OF_SEVERAL };
    html += &outcome(&replays.total, columns);
    if let Some(compared) = show::compared(&replays.total).filter(|_| sessions > 1) {
        html += &format!("<h3>{compared}</h3>\n");
        html += &plain(&replays.total, figures::AGAINST);
    }
    html += "</section>\n<section>\n<h2>Cost and share in the window</h2>\n";
    html += &scatter(&replays.total);
    html += "</section>\n";
    for session in &replays.sessions {
        html += &section(session, session.context, sessions > 1);
    }
    html += "<section>\n<h2>Cost breakdown</h2>\n";
    html += &plain(&replays.total, figures::PARTS);
    html += "</section>\n<footer>\n";
    html += EXPLANATION;
    html += &rule_sources(&replays.rules);
    html += &price_table(replays, prices);
    html += "</footer>\n</main>\n</body>\n</html>\n";
    html
}

/// Chart of cost against what was in the window, or a sentence if there is nothing to compare.
fn scatter(reports: &[Report]) -> String {
    let sentence = match chart::Finding::of(reports) {
        chart::Finding::Differ => {
            return figure(|size| chart::scatter(reports, size))
                + "<p class=\"note\">In the window: the share of what a call needed and only tool outputs had mentioned. 0 % is \
                   a policy that shows no tool output, 100 % one that shows all. A cross is a policy under which calls did \
                   not fit. Up and to the left is better; the axes begin where the data does, not at zero.</p>\n";
        }
        chart::Finding::Same => {
            "All policies have the same cost and the same share in the window, so there is nothing to compare."
        }
        chart::Finding::NothingNeeded => {
            "No call needed anything that only tool outputs mention, so there is nothing to compare."
        }
    };
    format!("<p class=\"note\">{sentence}</p>\n")
}

/// Marks text between backticks as code.
fn code(text: &str) -> String {
    let pieces = text.split('`').enumerate();
    pieces
        .map(|(at, piece)| if at % 2 == 1 { format!("<code>{piece}</code>") } else { piece.to_owned() })
        .collect()
}

/// Formats the windows that sessions were replayed in.
fn window_words(replays: &Replays) -> String {
    match (replays.context, replays.sessions.as_slice()) {
        (_, [one]) => super::window_words(one),
        (Some(context), _) => format!("in a window of {} tokens", figures::count(context)),
        (None, _) => "each session in its own window".to_owned(),
    }
}

fn title(replays: &Replays) -> String {
    match replays.sessions.as_slice() {
        [one] => one.name.clone(),
        many => format!("{} sessions", many.len()),
    }
}

/// Section of one session: its window over the calls, reductions, and its figures if there are several sessions.
fn section(session: &SessionReplay, context: u64, is_one_of_many: bool) -> String {
    let about = [session.title.clone(), session.model.clone(), Some(session.format.clone())];
    let about: Vec<String> = about.into_iter().flatten().map(|text| escape(&text)).collect();
    let mut html = String::from("<section class=\"session\">\n");
    if is_one_of_many {
        html += &format!("<h2>{}</h2>\n", escape(&session.name));
        html += &format!("<p class=\"finding\">{}</p>\n", code(&escape(&finding::of_session(session))));
        html += &outcome(&session.policies, figures::OUTCOME);
        html += "<h3>The window, call by call</h3>\n";
    } else {
        html += "<h2>The window, call by call</h2>\n";
    }
    let parameters: Vec<String> = show::parameters(session).iter().map(|line| escape(line)).collect();
    html += &format!("<p class=\"note\">{}. {}.</p>\n", about.join(" · "), sentences(&parameters));
    let recorded = &session.recorded_requests;
    html += &figure(|size| chart::windows(&session.policies, recorded, context, size));
    html += &chart::legend(&session.policies, recorded);
    html + "</section>\n"
}

/// Formats lines as sentences.
fn sentences(lines: &[String]) -> String {
    let capital = |line: &String| {
        let mut letters = line.chars();
        letters
            .next()
            .map(|first| first.to_uppercase().chain(letters).collect::<String>())
            .unwrap_or_default()
    };
    lines.iter().map(capital).collect::<Vec<_>>().join(". ")
}

/// Draws a chart twice, for screens and for phones.
fn figure(draw: impl Fn(Size) -> String) -> String {
    format!(
        "<figure class=\"wide\">{}</figure>\n<figure class=\"narrow\">{}</figure>\n",
        draw(Size::Wide),
        draw(Size::Narrow)
    )
}

/// Table of each policy's outcome and reductions.
fn outcome(reports: &[Report], figures: &[Figure]) -> String {
    let heading = "<th scope=\"col\" class=\"words\">reductions</th>";
    table("outcome", reports, figures, heading, |report| {
        format!("<td class=\"words\">{}</td>", escape(&figures::fired(report)))
    })
}

/// A table of figures. On a phone each policy is a separate block, so that nothing is cut off.
fn plain(reports: &[Report], figures: &[Figure]) -> String {
    table("parts", reports, figures, "", |_| String::new())
}

fn table(
    class: &str,
    reports: &[Report],
    figures: &[Figure],
    last_heading: &str,
    last_cell: impl Fn(&Report) -> String,
) -> String {
    let headings = figures.iter().map(|figure| format!("<th scope=\"col\">{}</th>", figure.heading));
    let rows = reports.iter().map(|report| format!("{}{}</tr>\n", row(report, figures), last_cell(report)));
    format!(
        "<div class=\"scroll\"><table class=\"{class}\">\n<thead><tr>{}{last_heading}</tr></thead>\n<tbody>\n{}</tbody>\n\
         </table></div>\n",
        headings.collect::<String>(),
        rows.collect::<String>()
    )
}

/// A table row without its end tag.
fn row(report: &Report, figures: &[Figure]) -> String {
    let mut html = String::from("<tr>");
    for (at, Figure { heading, cell }) in figures.iter().enumerate() {
        let cell = escape(&cell(report));
        let class = if *heading == "deaths" && report.deaths > 0 { " class=\"bad\"" } else { "" };
        html += &match at {
            0 => format!("<th scope=\"row\">{cell}</th>"),
            _ => format!("<td{class} data-name=\"{heading}\">{cell}</td>"),
        };
    }
    html
}

/// Lists the source of each policy's rules; policies with one source share an entry.
fn rule_sources(rules: &[RuleSource]) -> String {
    let mut sources: Vec<(&str, Vec<String>)> = Vec::new();
    for RuleSource { policy, source, .. } in rules {
        let name = escape(policy);
        match sources.iter_mut().find(|(known, _)| known == source) {
            Some((_, names)) => names.push(name),
            None => sources.push((source, vec![name])),
        }
    }
    let rows = sources.iter().map(|(source, names)| {
        format!("<dt>{}</dt><dd>{}</dd>\n", names.join(",<br>"), code(&escape(source)))
    });
    format!("<h2>Where the rules come from</h2>\n<dl>\n{}</dl>\n", rows.collect::<String>())
}

/// Table of the prices that were used, and all prices in a collapsed section.
fn price_table(replays: &Replays, prices: &Prices) -> String {
    let taken = replays.sessions.iter().flat_map(|session| {
        session.models.iter().map(|model| model.price.as_str()).chain([session.price.as_str()])
    });
    let models: Vec<&str> = taken.filter(|price| *price != FREE_PRICE).collect();
    let rows = listing::price_table(prices, &models);
    let table = |rows: &mut dyn Iterator<Item = &ListedPrice>| {
        let headings =
            ["model", "provider", "input", "read", "written", "for 1 h", "output", "cache", "long prompts"];
        let head: String = headings.map(|heading| format!("<th scope=\"col\">{heading}</th>")).concat();
        let body: String = rows.map(price_row).collect();
        format!(
            "<div class=\"scroll\"><table class=\"prices\">\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n\
             </table></div>\n"
        )
    };
    let used = if models.is_empty() {
        " None was used here, because the sessions were recorded as free.</p>\n".to_owned()
    } else {
        format!(" Used here:</p>\n{}", table(&mut rows.iter().filter(|row| row.used)))
    };
    format!(
        "<h2>Prices</h2>\n<p>Dollars per million tokens.{}<details><summary>All prices and \
         caches, by provider</summary>\n<p>A name with an ellipsis covers every model that begins with it and has no row of \
         its own.</p>\n{}</details>\n",
        used,
        table(&mut rows.iter())
    )
}

fn price_row(listed: &ListedPrice) -> String {
    let ListedPrice { provider, row, used } = listed;
    let price = |price: Option<f64>| price.map_or_else(|| "–".to_owned(), list_price);
    let (class, mark) = if *used { (" class=\"used\"", "▸ ") } else { ("", "") };
    let cells = [
        provider.unwrap_or("other").to_owned(),
        price(row.input),
        list_price(row.cache_read),
        list_price(row.cache_write),
        price(row.cache_write_hour),
        list_price(row.output),
        listing::cache(row),
        listing::long_prompts(row),
    ];
    let cells: String = cells.iter().map(|cell| format!("<td>{}</td>", escape(cell))).collect();
    format!("<tr{class}><th scope=\"row\">{mark}{}</th>{cells}</tr>\n", escape(&row.model))
}

/// Escapes text for HTML.
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

const EXPLANATION: &str = include_str!("explanation.html");

const STYLE: &str = include_str!("page.css");

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
