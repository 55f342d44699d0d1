//! `--list-policies` and `--list-prices`: the source of each policy's rules, and the table of prices.

use plimsoll_host::{HostError, RuleSource, list_price};
use plimsoll_replay::{PriceRow, Prices, Rules};
use serde::Serialize;

use crate::output::{Column, Holds, Output, Table, printable};
use crate::wrap::wrapped;

/// Minimum width for the columns on caches.
const WIDE: usize = 130;

/// A row of the price table, and whether anything was priced with it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListedPrice {
    pub(super) provider: Option<&'static str>,
    #[serde(flatten)]
    pub(super) row: PriceRow,
    pub(super) used: bool,
}

/// Returns the price table by provider, marking the rows that these models use.
pub(super) fn price_table(prices: &Prices, models: &[impl AsRef<str>]) -> Vec<ListedPrice> {
    let used: Vec<String> = models.iter().map(|model| prices.row_name(model.as_ref())).collect();
    let mut rows: Vec<ListedPrice> = prices
        .table()
        .into_iter()
        .map(|row| ListedPrice { provider: provider(&row.model), used: used.contains(&row.name), row })
        .collect();
    // Rows without a provider come last.
    rows.sort_by(|a, b| {
        let key = |row: &ListedPrice| (row.provider.is_none(), row.provider);
        key(a).cmp(&key(b)).then_with(|| a.row.model.cmp(&b.row.model))
    });
    rows
}

/// Returns the provider of a row.
pub(super) fn provider(row: &str) -> Option<&'static str> {
    let is_openai = |row: &str| ["gpt", "o1", "o3", "o4"].iter().any(|name| row.starts_with(name));
    match row {
        row if row.starts_with("claude") => Some("Anthropic"),
        row if row.starts_with("gemini") => Some("Google"),
        row if is_openai(row) => Some("OpenAI"),
        row if row.starts_with("glm") => Some("Z.ai"),
        _ => None,
    }
}

/// Describes the surcharge for long prompts.
pub(super) fn long_prompts(row: &PriceRow) -> String {
    row.long_prompt.map_or_else(
        || "–".to_owned(),
        |long| {
            let above = super::figures::short(long.above);
            format!("above {above}: × {} in, × {} out", long.input, long.output)
        },
    )
}

/// Describes a row's prompt cache.
pub(super) fn cache(row: &PriceRow) -> String {
    match row.cache {
        Some(rule) if rule.breakpoints => {
            format!("on request, from {}", super::figures::count(rule.min_tokens))
        }
        Some(rule) => format!("automatic, from {}", super::figures::count(rule.min_tokens)),
        None => "–".to_owned(),
    }
}

/// Lists policies and the sources of their rules.
pub(super) fn policies(rules: &[Rules], output: &mut Output) -> Result<(), HostError> {
    let sources: Vec<RuleSource> = rules.iter().map(RuleSource::from).collect();
    if output.json {
        return Ok(output.json(&sources)?);
    }
    for RuleSource { policy, source, .. } in sources {
        output.painted(&printable(&policy))?;
        output.painted(&wrapped(&format!("  {source}"), output.width()))?;
    }
    Ok(())
}

/// Lists all prices, marking those of these models.
pub(super) fn prices(prices: &Prices, models: &[String], output: &mut Output) -> Result<(), HostError> {
    let rows = price_table(prices, models);
    if output.json {
        return Ok(output.json(&rows)?);
    }
    output.painted(&wrapped(
        "Dollars per million tokens. A name with an ellipsis covers every model that begins with it and has no row of its own.",
        output.width(),
    ))?;
    let column = |heading, holds| Column { heading, holds };
    let mut columns =
        vec![column("", Holds::Names), column("provider", Holds::Names), column("model", Holds::Names)];
    columns.extend(
        ["input", "read", "written", "for 1 h", "output"].map(|heading| column(heading, Holds::Numbers)),
    );
    let is_wide = output.width() >= WIDE;
    if is_wide {
        columns.extend(["cache", "long prompts"].map(|heading| column(heading, Holds::Names)));
    }
    let mut table = Table::new(columns);
    for ListedPrice { provider, row, used } in &rows {
        let price = |price: Option<f64>| price.map_or_else(|| "–".to_owned(), list_price);
        let mut cells = vec![
            if *used { "▸".to_owned() } else { String::new() },
            provider.unwrap_or("other").to_owned(),
            row.model.clone(),
            price(row.input),
            list_price(row.cache_read),
            list_price(row.cache_write),
            price(row.cache_write_hour),
            list_price(row.output),
        ];
        if is_wide {
            cells.extend([cache(row), long_prompts(row)]);
        }
        table.row(cells);
    }
    Ok(output.table(&table)?)
}
