use plimsoll_formats::{Format, detect};
use rstest::rstest;

#[rstest]
#[case(
    r#"{"info":{"id":"s"},"messages":[{"info":{"role":"user"},"parts":[]}]}"#,
    Some(Format::OpencodeExport)
)]
#[case(r#"{"info":{"id":"s"},"messages":[]}"#, Some(Format::OpencodeExport))]
#[case(r#"[{"info":{},"parts":[]}]"#, Some(Format::OpencodeMessages))]
#[case(r#"{"parentUuid":null,"type":"user"}"#, Some(Format::ClaudeCode))]
#[case(r#"{"type":"summary","summary":"x","leafUuid":"y"}"#, Some(Format::ClaudeCode))]
#[case("not json\n{\"type\":\"last-prompt\",\"sessionId\":\"s\"}", Some(Format::ClaudeCode))]
#[case(r#"{"timestamp":"t","type":"session_meta","payload":{"id":"#, Some(Format::Codex))]
#[case(r#"{"id":"s","timestamp":"t","instructions":null}"#, Some(Format::Codex))]
#[case(r#"{"type":"session","version":3,"id":"s","cwd":"/"}"#, Some(Format::Pi))]
#[case(r#"{"type":"message","message":{"role":"user","cont"#, Some(Format::Pi))]
#[case("{\n  \"environment\": \"e\",\n  \"trajectory\": [\n    {\"action\": \"l", Some(Format::SweAgent))]
#[case(r#"{"messages":[{"role":"user","content":"x"}]}"#, Some(Format::OpenaiChat))]
#[case(r#"[{"role":"system","content":"x"},{"ro"#, Some(Format::OpenaiChat))]
#[case("\u{feff}[{\"role\":\"user\",\"content\":\"x\"}]", Some(Format::OpenaiChat))]
#[case(r#"{"model":"claude-x","messages":[{"role":"user","content":"x"}]}"#, Some(Format::AnthropicMessages))]
#[case(r#"{"model":"claude-x","messages":[{"role":"system","content":"x"}]}"#, Some(Format::OpenaiChat))]
#[case(
    r#"[{"role":"user","content":[{"type":"tool_result","tool_use_id":"x"}]}]"#,
    Some(Format::AnthropicMessages)
)]
#[case(r#"{"model":"m","system":[{"type":"text","text":"long"#, Some(Format::AnthropicMessages))]
#[case(r#"{"model":"m","tools":[{"type":"function","function":{"name":"f"}},{"#, Some(Format::OpenaiChat))]
#[case(r#"{"name":"package","version":"1"}"#, None)]
#[case("[]", None)]
#[case("[[]]", None)]
#[case("", None)]
#[case("hello", None)]
#[case("{{{{", None)]
fn by_content(#[case] beginning: &str, #[case] format: Option<Format>) {
    assert_eq!(detect(beginning.as_bytes()), format);
}

#[test]
fn deep_nesting_is_handled() {
    assert_eq!(detect("[".repeat(1 << 20).as_bytes()), None);
    assert_eq!(detect(&vec![b'{'; 1 << 16]), None);
}

#[test]
fn names_go_both_ways() {
    for format in Format::ALL {
        assert_eq!(format.to_string().parse(), Ok(format));
    }
    assert_eq!("Claude_Code".parse(), Ok(Format::ClaudeCode));
    let error = "word".parse::<Format>().unwrap_err().to_string();
    assert!(error.starts_with("unknown format `word`; known formats: opencode-export, "), "{error}");
}
