//! The recall tool: inputs and answers.

use plimsoll::policy::RecallPolicy;
use plimsoll::recall::{Lookup, RecallAnswer, RecallContent, RecallQuery, RecallTool};
use plimsoll::{Chars, Policy};
use plimsoll_testkit::odd_text;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

fn policy() -> RecallPolicy {
    Policy::default().recall.clone()
}

fn small() -> RecallPolicy {
    RecallPolicy {
        max_chars: Chars(2_000),
        max_share: 1.0,
        max_matches: 3,
        context_lines: 1,
        max_line_chars: Chars(200),
    }
}

fn ask(input: Value, text: &str, policy: &RecallPolicy) -> RecallAnswer {
    let query = RecallQuery::parse(&input).unwrap();
    query.answer(&Lookup::Found(RecallContent::new("spill_9c2f", "output of bash", text)), policy)
}

fn numbered(lines: usize) -> String {
    (1..=lines).map(|n| format!("line {n}\n")).collect()
}

#[test]
fn the_tool_description_states_its_limits() {
    let tool = RecallTool::new(&policy());
    assert_eq!(tool.name, "recall");
    assert!(tool.description.contains("at most 8,000 characters"), "{}", tool.description);
    assert!(tool.description.contains("[Full output kept: recall spill_"), "the notice as it is worded");
    let fields: Vec<&String> = tool.input_schema["properties"].as_object().unwrap().keys().collect();
    assert_eq!(fields, ["handle", "from", "to", "offset", "search", "limit"]);
    let keys = serde_json::to_value(&tool).unwrap();
    assert!(keys["inputSchema"]["type"] == "object" && keys["name"] == "recall");
    // The schema has exactly the fields that can be parsed.
    for field in fields {
        let value = if matches!(field.as_str(), "handle" | "search") { json!("x") } else { json!(7) };
        let query = RecallQuery::parse(&json!({ "handle": "x", field.as_str(): value })).unwrap();
        assert_eq!(serde_json::to_value(&query).unwrap()[field], value);
    }
}

#[rstest]
#[case(json!({ "handle": "prt_1" }), json!({ "handle": "prt_1" }))]
#[case(json!({ "handle": " `prt_1` " }), json!({ "handle": "prt_1" }))]
#[case(json!({ "handle": "[Full output kept: recall spill_9c2f]" }), json!({ "handle": "spill_9c2f" }))]
#[case(json!({ "handle": "recall prt_1" }), json!({ "handle": "prt_1" }))]
#[case(json!({ "handle": "msg_1..msg_9" }), json!({ "handle": "msg_1..msg_9" }))]
#[case(json!("prt_1"), json!({ "handle": "prt_1" }))]
#[case(json!({ "handle": "h", "from": "12", "to": 20.0 }), json!({ "handle": "h", "from": 12, "to": 20 }))]
#[case(
    json!({ "handle": "h", "from": null, "to": 0, "offset": 0, "search": "", "limit": "" }),
    json!({ "handle": "h" })
)]
#[case(json!({ "search": "TODO" }), json!({ "search": "TODO" }))]
fn unambiguous_inputs_are_accepted(#[case] input: Value, #[case] query: Value) {
    assert_eq!(serde_json::to_value(RecallQuery::parse(&input).unwrap()).unwrap(), query);
}

#[rstest]
#[case(
    json!({}),
    "`recall` requires a `handle`, as written where content was truncated or cleared, or a `search`, which covers \
     all removed content"
)]
#[case(
    json!({ "handle": "h", "pattern": "x" }),
    "unknown field `pattern` of `recall` (available: `handle`, `from`, `to`, `offset`, `search`, `limit`)"
)]
#[case(json!({ "handle": ["h"] }), "`handle` must be a string, not an array")]
#[case(json!({ "handle": "h", "from": "ten" }), "`from` must be a positive integer, not a string")]
#[case(json!({ "handle": "h", "from": -3 }), "`from` must be a positive integer, not a negative number")]
#[case(json!({ "handle": "h", "limit": 1.5 }), "`limit` must be a positive integer, not a fractional number")]
#[case(
    json!({ "handle": "h", "from": 9, "to": 3 }),
    "`from` (9) must not be greater than `to` (3)"
)]
#[case(json!(7), "the input of `recall` must be an object such as {\"handle\": \"spill_9c2f\"}, not a number")]
fn errors_tell_the_model_how_to_fix_the_call(#[case] input: Value, #[case] message: &str) {
    assert_eq!(RecallQuery::parse(&input).unwrap_err().to_string(), message);
}

#[test]
fn short_content_is_returned_whole() {
    let answer = ask(json!({ "handle": "spill_9c2f" }), "one\r\n\ntwo\n", &policy());
    assert_eq!(answer.text, "[recall spill_9c2f: output of bash, lines 1-3 of 3]\n\none\r\n\ntwo");
    assert_eq!((answer.is_error, answer.next), (false, None));
    let empty = ask(json!({ "handle": "spill_9c2f" }), "", &policy());
    assert_eq!(empty.text, "[recall spill_9c2f: output of bash, empty]");
}

#[test]
fn lines_are_selected_and_the_rest_is_counted() {
    let text = numbered(3_000);
    let answer = ask(json!({ "handle": "h", "from": 1_998, "to": 2_000 }), &text, &policy());
    assert_eq!(
        answer.text,
        "[recall spill_9c2f: output of bash, lines 1,998-2,000 of 3,000]\n\nline 1998\nline 1999\nline 2000\n\n\
         [lines 2,001-3,000 not shown; continue with `from`: 2001, or use `search`]"
    );
    assert_eq!(answer.next.unwrap().from, Some(2_001));
    let few = ask(json!({ "handle": "h", "from": 2_999, "limit": 1 }), &text, &policy());
    assert!(
        few.text.contains("lines 2,999-2,999 of 3,000]\n\nline 2999\n\n[lines 3,000-3,000 not shown"),
        "{}",
        few.text
    );
    let end = ask(json!({ "handle": "h", "from": 2_999, "to": 9_999 }), &text, &policy());
    assert!(end.text.ends_with("lines 2,999-3,000 of 3,000]\n\nline 2999\nline 3000"), "{}", end.text);
    let beyond = ask(json!({ "handle": "h", "from": 3_001 }), &text, &policy());
    assert!(beyond.is_error);
    assert_eq!(beyond.text, "[recall spill_9c2f: output of bash, 3,000 lines: line 3,001 does not exist]");
}

#[test]
fn a_very_long_line_is_continued_by_its_offset() {
    let text = format!("short\n{}", "🚢x".repeat(2_000));
    let first = ask(json!({ "handle": "h" }), &text, &small());
    assert!(
        first.text.contains("lines 1-1 of 2]\n\nshort\n\n[lines 2-2 not shown; continue with `from`: 2,")
    );
    let second = first.next.unwrap();
    let content = Lookup::Found(RecallContent::new("spill_9c2f", "output of bash", text.as_str()));
    let answer = second.answer(&content, &small());
    let offset = answer.next.as_ref().unwrap().offset.unwrap();
    assert!(answer.text.ends_with(&format!("continue with `from`: 2, `offset`: {offset}, or use `search`]")));
    let third = answer.next.unwrap().answer(&content, &small());
    assert!(third.text.contains(&format!("lines 2-2 of 2, starting at character {}]", Chars(offset))));
}

#[test]
fn a_search_returns_lines_with_numbers() {
    let text =
        numbered(3_000).replace("line 1500\n", "error: here\n").replace("line 2000\n", "error(there\n");
    let answer = ask(json!({ "handle": "h", "search": "^error" }), &text, &policy());
    assert_eq!(
        answer.text,
        "[recall spill_9c2f: output of bash, 2 of 3,000 lines match `^error`]\n\n1498-line 1498\n1499-line 1499\n\
         1500:error: here\n1501-line 1501\n1502-line 1502\n--\n1998-line 1998\n1999-line 1999\n2000:error(there\n\
         2001-line 2001\n2002-line 2002"
    );
    let literal = ask(json!({ "handle": "h", "search": "error(" }), &text, &small());
    assert_eq!(
        literal.text,
        "[recall spill_9c2f: output of bash, 1 of 3,000 lines matches `error(` (searched literally: not a valid \
         regular expression)]\n\n1999-line 1999\n2000:error(there\n2001-line 2001"
    );
    let many = ask(json!({ "handle": "h", "search": "line", "from": 10 }), &text, &small());
    assert!(
        many.text.starts_with(
            "[recall spill_9c2f: output of bash, 2,989 of 3,000 lines match `line`, showing the first 3]\n\n\
         9-line 9\n10:line 10\n11:line 11\n12:line 12\n\n[more matches; continue with `from`: 13]"
        ),
        "{}",
        many.text
    );
    assert_eq!(many.next.unwrap().from, Some(13));
    let none = ask(json!({ "handle": "h", "search": "warning" }), &text, &policy());
    assert_eq!(none.text, "[recall spill_9c2f: output of bash, none of 3,000 lines matches `warning`]");
    assert!(!none.is_error);
}

#[test]
fn a_match_in_a_very_long_line_is_shown_with_its_surroundings() {
    let text = format!("{}needle{}", "a".repeat(100_000), "b".repeat(100_000));
    let answer = ask(json!({ "handle": "h", "search": "needle" }), &text, &small());
    let shown = answer.text.lines().last().unwrap();
    assert_eq!(shown, format!("1:…{}needle{}…", "a".repeat(100), "b".repeat(94)));
}

#[test]
fn everything_that_left_the_window_can_be_searched() {
    let contents = vec![
        RecallContent::new("spill_1", "output of bash", "ok\nerror: one\nok"),
        RecallContent::new("prt_2", "output of read", "nothing"),
        RecallContent::new("msg_1..msg_4", "4 messages", "user: why the error?"),
    ];
    let query = RecallQuery::parse(&json!({ "search": "error" })).unwrap();
    let answer = query.answer(&Lookup::Searched(contents.clone()), &policy());
    assert_eq!(
        answer.text,
        "[recall: matches for `error` in 2 places]\n\n[spill_1: output of bash, 1 of 3 lines]\n1-ok\n2:error: one\n3-ok\n\n\
         [msg_1..msg_4: 4 messages, 1 of 1 line]\n1:user: why the error?"
    );
    let one = RecallQuery { limit: Some(1), ..query }.answer(&Lookup::Searched(contents.clone()), &policy());
    assert!(
        one.text.ends_with("3-ok\n\n[1 more place not shown; use a more specific search]"),
        "{}",
        one.text
    );
    let none = RecallQuery::parse(&json!({ "search": "absent" })).unwrap();
    let none = none.answer(&Lookup::Searched(contents), &policy());
    assert_eq!(none.text, "[recall: no removed content matches `absent`]");
}

/// A host stops searching when it has enough to show. The total is then unknown.
#[test]
fn a_search_that_ended_early_does_not_claim_a_total() {
    let lines = [(2, "error: one".to_owned())];
    let content = RecallContent::excerpt("spill_1", "output of bash", lines, (3, 1));
    let query = RecallQuery::parse(&json!({ "search": "error" })).unwrap();
    let whole = query.answer(&Lookup::Searched(vec![content.clone()]), &policy()).text;
    assert!(whole.starts_with("[recall: matches for `error` in 1 place]"), "{whole}");
    let early = query.answer(&Lookup::Searched(vec![content.ends_search()]), &policy()).text;
    assert!(early.starts_with("[recall: matches for `error` in at least 1 place]"), "{early}");
}

#[test]
fn lost_content_is_explained() {
    let query = RecallQuery::of("spill_9");
    let missing = query.answer(&Lookup::Missing, &policy());
    assert_eq!(
        missing.text,
        "[recall spill_9: unknown handle. Copy it exactly from where content was truncated or cleared, or omit it and \
         use `search`]"
    );
    let candidates = [("spill_91", "output of bash"), ("spill_92", "output of read")];
    let candidates = candidates.map(|(handle, what)| (handle.to_owned(), what.to_owned())).to_vec();
    let ambiguous = query.answer(&Lookup::Ambiguous(candidates), &policy());
    assert_eq!(
        ambiguous.text,
        "[recall spill_9: ambiguous handle, matches 2 handles; use one of these in full]\n\nspill_91: output of bash\n\
         spill_92: output of read"
    );
    let gone = query.answer(&Lookup::Gone("it expired a week after it was kept".into()), &policy());
    assert_eq!(gone.text, "[recall spill_9: no longer available: it expired a week after it was kept]");
    assert!([missing, ambiguous, gone].iter().all(|answer| answer.is_error && answer.next.is_none()));
}

/// The content between the first and the last line, which describe it and how to continue.
fn body(answer: &RecallAnswer) -> &str {
    let (_, body) = answer.text.split_once("\n\n").unwrap();
    match answer.next {
        Some(_) => body.rsplit_once("\n\n[").unwrap().0,
        None => body,
    }
}

proptest! {
    /// Following each answer's hint about the rest returns every char, and no answer exceeds the limit.
    #[test]
    fn properties_recalling_page_by_page_returns_everything(
        pieces in prop::collection::vec(odd_text(), 1..6),
        handle in "[a-z_.]{1,300}",
    ) {
        let text = pieces.join("\n");
        prop_assume!(!text.is_empty());
        let content = Lookup::Found(RecallContent::new(handle.as_str(), "output of bash", text.as_str()));
        let policy = small();
        let mut query = RecallQuery::of(handle);
        let mut whole = String::new();
        loop {
            let answer = query.answer(&content, &policy);
            prop_assert!(Chars::of(&answer.text) <= policy.max_chars, "{} chars", Chars::of(&answer.text));
            prop_assert!(!answer.is_error);
            whole.push_str(body(&answer));
            let Some(next) = answer.next else { break };
            prop_assert!((next.from, next.offset) > (query.from, query.offset), "it goes forward");
            if next.offset.is_none() {
                whole.push('\n');
            }
            query = next;
        }
        prop_assert_eq!(whole.as_str(), text.strip_suffix('\n').unwrap_or(&text));
    }

    /// Following a search finds every line that matches, once, whatever the lines are.
    #[test]
    fn properties_a_search_page_by_page_finds_every_line(
        pieces in prop::collection::vec(odd_text(), 1..8),
        search in "[a-zE🚢]|Err.r|\\(|[^x]",
        context_lines in 0u64..4,
    ) {
        let text = pieces.join("\n");
        let content = RecallContent::new("spill_9c2f", "output of bash", text.as_str());
        let policy = RecallPolicy { context_lines, ..small() };
        #[allow(clippy::disallowed_types)]
        let pattern = regex::Regex::new(&search).ok();
        let lines = text.strip_suffix('\n').unwrap_or(&text).split('\n');
        let matches = |line: &&str| match &pattern {
            Some(pattern) => pattern.is_match(line),
            None => line.contains(&search),
        };
        let expected = if text.is_empty() { 0 } else { lines.filter(matches).count() };
        let mut query = RecallQuery { search: Some(search.clone()), ..RecallQuery::of("spill_9c2f") };
        let mut found = 0;
        loop {
            let answer = query.answer(&Lookup::Found(content.clone()), &policy);
            prop_assert!(Chars::of(&answer.text) <= policy.max_chars, "{} chars", Chars::of(&answer.text));
            let is_match = |line: &&str| {
                line.split_once(':').is_some_and(|(number, _)| number.parse::<u64>().is_ok())
            };
            // No content line starts like this, so every such line is a match.
            found += answer.text.split('\n').skip(1).filter(is_match).count();
            let everywhere = query.answer(&Lookup::Searched(vec![content.clone(); 3]), &policy);
            prop_assert!(Chars::of(&everywhere.text) <= policy.max_chars);
            let Some(next) = answer.next else { break };
            prop_assert!(next.from > query.from, "it goes forward");
            query = next;
        }
        prop_assert_eq!(found, expected);
    }
}
