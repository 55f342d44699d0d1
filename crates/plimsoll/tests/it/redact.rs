//! Secrets in summaries. Those below are put together here, so that no scanner takes them for real.

use plimsoll::redact::redact;
use proptest::prelude::*;
use rstest::rstest;

fn random(length: usize) -> String {
    "aB3dE7gH1jK5mN9pQ2sT4vW6yZ8".chars().cycle().take(length).collect()
}

fn hex(length: usize) -> String {
    "0a1b2c3d4e5f6789".chars().cycle().take(length).collect()
}

/// Each secret stands in a sentence whose other words must survive.
#[rstest]
#[case::aws(format!("{}{}", "AKIA", "IOSFODNN7EXAMPLE"))]
#[case::aws_sts(format!("{}{}", "ASIA", "IOSFODNN7EXAMPLE"))]
#[case::google(format!("AIza{}", random(35)))]
#[case::google_oauth(format!("ya29.{}", random(40)))]
#[case::google_client(format!("GOCSPX-{}", random(28)))]
#[case::digital_ocean(format!("dop_v1_{}", hex(64)))]
#[case::anthropic(format!("sk-ant-api03-{}", random(60)))]
#[case::openai(format!("sk-{}", random(48)))]
#[case::openai_project(format!("sk-proj-{}", random(60)))]
#[case::openrouter(format!("sk-or-v1-{}", hex(64)))]
#[case::groq(format!("gsk_{}", random(52)))]
#[case::hugging_face(format!("hf_{}", random(34)))]
#[case::replicate(format!("r8_{}", random(37)))]
#[case::xai(format!("xai-{}", random(60)))]
#[case::stripe(format!("sk_live_{}", random(24)))]
#[case::stripe_hook(format!("whsec_{}", random(32)))]
#[case::github(format!("ghp_{}", random(36)))]
#[case::github_fine(format!("github_pat_{}", random(60)))]
#[case::gitlab(format!("glpat-{}", random(20)))]
#[case::npm(format!("npm_{}", random(36)))]
#[case::pypi(format!("pypi-AgEI{}", random(80)))]
#[case::slack(format!("xoxb-{}", random(40)))]
#[case::telegram(format!("123456789:{}", random(35)))]
#[case::twilio(format!("SK{}", hex(32)))]
#[case::sendgrid(format!("SG.{}.{}", random(22), random(43)))]
#[case::mailgun(format!("key-{}", hex(32)))]
#[case::shopify(format!("shpat_{}", hex(32)))]
#[case::databricks(format!("dapi{}", hex(32)))]
#[case::vault(format!("hvs.{}", random(40)))]
#[case::linear(format!("lin_api_{}", random(40)))]
#[case::notion(format!("ntn_{}", random(44)))]
#[case::jwt(format!("eyJ{}.{}.{}", random(20), random(60), random(43)))]
fn r126_known_shapes_vanish_and_the_sentence_stays(#[case] secret: String) {
    let text = format!("We deployed with {secret} and then the tests passed.");
    let redacted = redact(&text);
    assert!(!redacted.text.contains(&secret), "{}", redacted.text);
    assert!(redacted.text.starts_with("We deployed with [redacted: "), "{}", redacted.text);
    assert!(redacted.text.ends_with("] and then the tests passed."), "{}", redacted.text);
    assert_eq!(redacted.found.len(), 1);
}

/// What stands before a secret, the secret, what stands behind it.
#[rstest]
#[case("postgres://app:", "hunter2", "@db.internal:5432/prod")]
#[case("https://user:", "p%40ss-w0rd", "@example.org/x")]
#[case("redis://:", "s3cret", "@localhost:6379")]
#[case("SECRET=", "abcd1234", " next")]
#[case("export AWS_SECRET_ACCESS_KEY=", "wJalrXUtnFEMIK7MDENGbPxRfiCY", "\n")]
#[case("DB_PASSWORD='", "correct-horse", "'")]
#[case("api_key = \"", "zz11zz22", "\"")]
#[case("{\"client_secret\": \"", "letmein1", "\", \"x\": 1}")]
#[case("{'password': '", "hunter22", "'}")]
#[case("password: ", "hunter2024", " was used")]
#[case("password: ", "hunter2", " was used")]
#[case("DB_PASS=", "s3cr3tpw", " next")]
#[case("PGPASSWORD=", "abc", " psql")]
#[case("curl -u admin:", "hunter2", " url")]
#[case("AWS Secret Access Key: ", "wJalrXUtnFEMI7K", "\n")]
#[case("postgres://u:", "p@ss", "@h/db")]
#[case("mysql --password=", "swordfish", " -u root")]
#[case("tool --api-key ", "abcd-efgh", " run")]
#[case("Authorization: Bearer ", "abcdef123456", ", then")]
#[case("curl -H 'Authorization: Basic ", "dXNlcjpwYXNz", "' url")]
#[case("Cookie: session=", "0123456789abcdef", "; path=/")]
#[case("X-Api-Key: ", "qwerty12", "\n")]
#[case("bearer ", "a1b2c3d4e5f6a1b2c3d4e5f6", " token")]
#[case("AccountKey=", "Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9v", ";EndpointSuffix")]
#[case("hooks.slack.com/services/", "T000/B000/abcdefghijklmnopqrstuvwx", " posts")]
#[case("https://", "0123456789abcdef0123456789abcdef", "@o1.ingest.example/2")]
fn r126_only_the_value_goes(#[case] before: &str, #[case] secret: &str, #[case] after: &str) {
    let redacted = redact(&format!("{before}{secret}{after}")).text;
    assert!(!redacted.contains(secret), "{redacted}");
    assert!(redacted.starts_with(before), "{redacted}");
    assert!(redacted.ends_with(after), "{redacted}");
}

#[test]
fn r126_private_key_blocks_go_and_prose_behind_a_broken_one_stays() {
    let body = format!("{}\n{}\n{}", random(64), random(64), "dGhlZW5k");
    let (begin, end) = ("-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----");
    let whole = redact(&format!("before\n{begin}\n{body}\n{end}\nafter it all")).text;
    assert_eq!(whole, "before\n[redacted: private key]\nafter it all");
    let broken = redact(&format!("{begin}\n{}\nAnd then we went on with the next file.", random(64))).text;
    assert_eq!(broken, "[redacted: private key]\nAnd then we went on with the next file.");
    let escaped = redact(&format!("\"{begin}\\n{}\\n{}\\n{end}\\n\"", random(64), random(64))).text;
    assert_eq!(escaped, "\"[redacted: private key]\\n\"");
}

#[rstest]
#[case("The token: it is counted once.")]
#[case("password: string, token: str | None")]
#[case("token=None, secret=null, api_key=undefined")]
#[case("max_tokens: 4096 and max_tokens=4096, tokens: 1,234")]
#[case("tokenizer: o200k_base, tokenizer=cl100k_base")]
#[case("a secret sauce; authored by author=Jane42, authority: x1")]
#[case("SECRET=$SECRET API_KEY=${API_KEY} TOKEN=<your token> PWD=$(pwd)")]
#[case("token = process.env.TOKEN; key = os.environ[\"TOKEN\"]")]
#[case("password=*** and password=xxxxxxxx")]
#[case("commit 4f2a9c1e8b7d6a5f4e3d2c1b0a9f8e7d6c5b4a39 in src/token.rs")]
#[case("id 550e8400-e29b-41d4-a716-446655440000, msg_1e0f40599001MqRMKGqo0oDpjo")]
#[case("see http://localhost:8080/@scope and https://example.org/a:b@c")]
#[case("if token == expected_value_1 { return }")]
#[case("the password_policy: see docs/password.md")]
#[case("auth: handled by middleware")]
#[case("sk-learn-style-estimator-interface is a kebab name")]
fn ordinary_text_stays(#[case] text: &str) {
    assert_eq!(redact(text).text, text);
}

#[rstest]
#[case("a")]
#[case("-----BEGIN RSA PRIVATE KEY-----")]
#[case("eyJ")]
#[case("x://a:")]
#[case("token=")]
#[case("sk-a1")]
#[case("\"secret\": \"")]
fn hostile_input_is_linear(#[case] seed: &str) {
    let text = seed.repeat(1_000_000 / seed.len());
    assert!(redact(&text).text.len() <= text.len() * 4);
}

proptest! {
    #[test]
    fn redacting_twice_changes_nothing_more(text in "([a-z ]{0,20}|token=[a-z0-9]{4,9}|x://u:p1@h|sk-ant-[a-z0-9]{20}|password: [a-z0-9]{9}){0,6}") {
        let once = redact(&text).text;
        prop_assert_eq!(redact(&once).text, once);
    }

    #[test]
    fn any_text_is_survived(text in "\\PC{0,300}") {
        let _ = redact(&text);
    }
}
