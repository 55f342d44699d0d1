//! Names of models, and where requests are sent.

use plimsoll_providers::{Endpoint, EndpointError, MaxTokensField, ModelRef, Secret, Wire, WordlessContent};
use rstest::rstest;

#[test]
fn a_model_is_named_by_its_provider_and_its_own_name() {
    let parsed: ModelRef = "openrouter/anthropic/claude-sonnet-4.5".parse().unwrap();
    assert_eq!(
        (parsed.provider.as_str(), parsed.model.as_str()),
        ("openrouter", "anthropic/claude-sonnet-4.5")
    );
    assert_eq!(parsed.to_string(), "openrouter/anthropic/claude-sonnet-4.5");
    for wrong in ["", "gpt-5", "/gpt-5", "openai/"] {
        assert_eq!(wrong.parse::<ModelRef>(), Err(EndpointError::NotAModel(wrong.into())));
    }
}

fn endpoint(provider: &str, variables: &[(&str, &str)]) -> Result<Endpoint, EndpointError> {
    let variables: Vec<(String, String)> =
        variables.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
    let get = move |name: &str| variables.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
    Endpoint::from_variables(provider, get)
}

#[rstest]
#[case("anthropic", &[], "https://api.anthropic.com/v1/messages")]
#[case("openai", &[], "https://api.openai.com/v1/responses")]
#[case("openai-chat", &[], "https://api.openai.com/v1/chat/completions")]
#[case("anthropic", &[("ANTHROPIC_BASE_URL", "http://127.0.0.1:8080")], "http://127.0.0.1:8080/v1/messages")]
#[case("anthropic", &[("ANTHROPIC_BASE_URL", "https://gw.example/anthropic/")], "https://gw.example/anthropic/v1/messages")]
#[case("anthropic", &[("ANTHROPIC_BASE_URL", "https://gw.example/v1/")], "https://gw.example/v1/messages")]
#[case("openai", &[("OPENAI_BASE_URL", "http://127.0.0.1:8080/v1/")], "http://127.0.0.1:8080/v1/responses")]
#[case("openai-chat", &[("OPENAI_BASE_URL", "http://127.0.0.1:11434/v1")], "http://127.0.0.1:11434/v1/chat/completions")]
#[case("openai-chat", &[("OPENAI_BASE_URL", "  ")], "https://api.openai.com/v1/chat/completions")]
#[case("openai-chat", &[("OPENAI_BASE_URL", "https://gw.example/v1?api-version=2026-01-01&key=s3cr3t-value#top")], "https://gw.example/v1/chat/completions?api-version=2026-01-01&key=s3cr3t-value")]
#[case("anthropic", &[("ANTHROPIC_BASE_URL", "https://gw.example/v1/?key=s3cr3t-value")], "https://gw.example/v1/messages?key=s3cr3t-value")]
#[case("openai", &[("OPENAI_BASE_URL", "https://gw.example?key=a/b")], "https://gw.example/responses?key=a/b")]
fn addresses_are_built_as_the_sdks_do(
    #[case] provider: &str,
    #[case] more: &[(&str, &str)],
    #[case] url: &str,
) {
    let keys = [("ANTHROPIC_API_KEY", "a"), ("OPENAI_API_KEY", "b")];
    assert_eq!(endpoint(provider, &[&keys[..], more].concat()).unwrap().url(), url);
}

#[test]
fn a_key_is_required_if_requests_go_to_the_provider_itself() {
    let error = endpoint("anthropic", &[("ANTHROPIC_API_KEY", ""), ("OPENAI_API_KEY", "x")]).unwrap_err();
    assert_eq!(error.to_string(), "no key for `anthropic`: set `ANTHROPIC_API_KEY`");
    let local = endpoint("openai-chat", &[("OPENAI_BASE_URL", "http://127.0.0.1:8080/v1")]).unwrap();
    assert_eq!((local.key, local.wire), (None, Wire::Chat));
    let token = endpoint("anthropic", &[("ANTHROPIC_AUTH_TOKEN", "t")]).unwrap();
    assert_eq!(token.headers, [("authorization".to_owned(), Secret::new("Bearer t"))]);
    let key = endpoint("openai", &[("OPENAI_API_KEY", " k\n")]).unwrap().key;
    assert_eq!(key, Some(Secret::new("k")));
    assert_eq!(endpoint("nope", &[]), Err(EndpointError::UnknownProvider("nope".into())));
    assert!(endpoint("openai", &[("OPENAI_BASE_URL", "localhost:8080")]).is_err());
}

#[rstest]
#[case("https://api.openai.com/v1", MaxTokensField::MaxCompletionTokens)]
#[case("https://x.openai.azure.com/openai/v1", MaxTokensField::MaxCompletionTokens)]
#[case("http://127.0.0.1:8080/v1", MaxTokensField::MaxTokens)]
#[case("https://notopenai.com/v1", MaxTokensField::MaxTokens)]
fn the_answers_limit_has_the_name_that_the_server_knows(#[case] url: &str, #[case] field: MaxTokensField) {
    let endpoint = Endpoint::new(Wire::Chat, url, None).unwrap();
    assert_eq!(endpoint.request_options().max_tokens_field, field);
}

#[rstest]
#[case("https://api.openai.com/v1", WordlessContent::Null)]
#[case("https://bedrock.gateway.example.com/v1", WordlessContent::Null)]
#[case("https://203.0.113.7/v1", WordlessContent::Null)]
#[case("http://127.0.0.1:8080/v1", WordlessContent::EmptyText)]
#[case("http://[::1]:8080/v1", WordlessContent::EmptyText)]
#[case("http://LOCALHOST:11434/v1", WordlessContent::EmptyText)]
#[case("http://ollama:11434/v1", WordlessContent::EmptyText)]
#[case("http://192.168.1.20:8000/v1", WordlessContent::EmptyText)]
fn local_servers_get_an_empty_text_in_messages_with_only_calls(
    #[case] url: &str,
    #[case] content: WordlessContent,
) {
    let endpoint = Endpoint::new(Wire::Chat, url, None).unwrap();
    assert_eq!(endpoint.request_options().wordless_content, content);
}
