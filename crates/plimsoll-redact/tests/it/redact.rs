//! Secrets in summaries. Those below are assembled here, so that scanners do not report them.
//!
//! The tables in `corpus/` are test cases: `secrets.txt` says what must be removed and what must stay, `services.txt`
//! has a token of every known service, and `ordinary.txt` must stay unchanged.

use std::collections::BTreeSet;

use plimsoll_redact::{redact, services};
use proptest::prelude::*;
use rstest::rstest;

const SECRETS: &str = include_str!("corpus/secrets.txt");
const SERVICES: &str = include_str!("corpus/services.txt");
const ORDINARY: &str = include_str!("corpus/ordinary.txt");

/// The lines of a table, without its comments.
fn rows(table: &'static str) -> impl Iterator<Item = &'static str> {
    table.lines().filter(|line| !line.is_empty() && !line.starts_with("## "))
}

/// Expands a line of a table: `⟨a40⟩` and similar tokens, and `⏎` and `⇥` as line feed and tab.
fn expand(line: &str) -> String {
    let mut text = String::new();
    let mut pieces = line.split('⟨');
    text.push_str(pieces.next().unwrap());
    for piece in pieces {
        let (made_up, rest) = piece.split_once('⟩').expect(line);
        match made_up.split_once(' ') {
            Some((end, label)) => text.push_str(&format!("-----{} {label}-----", end.to_uppercase())),
            None => text.push_str(&generate(made_up)),
        }
        text.push_str(rest);
    }
    text.replace('⏎', "\n").replace('⇥', "\t")
}

/// Generates a value: `a40` is forty letters and digits; the comment in `secrets.txt` lists the other kinds.
fn generate(sort_and_length: &str) -> String {
    let (sort, length) = sort_and_length.split_at(1);
    let alphabet = match sort {
        "a" => "aB3dE7gH1jK5mN9pQ2sT4vW6yZ8",
        "b" => "aB3/dE7+gH1jK5mN9pQ2sT4vW6yZ8",
        "d" => "1234567890",
        "h" => "0a1b2c3d4e5f6789",
        "l" => "a1b2c3d4e5f6g7h8",
        "u" => "A1B2C3D4E5F6G7H8",
        other => panic!("no characters of the sort {other}"),
    };
    alphabet.chars().cycle().take(length.parse().expect(sort_and_length)).collect()
}

/// Returns what must stay of a line of `secrets.txt`, and what must be removed between.
fn kept_and_removed(line: &str) -> (Vec<String>, Vec<String>) {
    let line = expand(line);
    let mut pieces = line.split('«');
    let mut stays = vec![pieces.next().unwrap().to_owned()];
    let mut goes = Vec::new();
    for piece in pieces {
        let (secret, rest) = piece.split_once('»').expect(&line);
        goes.push(secret.to_owned());
        stays.push(rest.to_owned());
    }
    (stays, goes)
}

/// Returns `text` with every mark as `[redacted]`, without its kind.
fn without_kinds(text: &str) -> String {
    let mut pieces = text.split("[redacted: ");
    let first = pieces.next().unwrap().to_owned();
    pieces
        .fold(first, |text, piece| text + "[redacted]" + piece.split_once(']').expect("a closing bracket").1)
}

#[test]
fn r126_every_secret_of_the_corpus_is_removed_and_the_rest_of_its_line_stays() {
    assert!(rows(SECRETS).count() >= 150);
    let wrong: Vec<String> = rows(SECRETS)
        .filter_map(|line| {
            let (stays, goes) = kept_and_removed(line);
            assert!(!goes.is_empty(), "no secret is marked in {line}");
            let text: String = stays
                .iter()
                .zip(goes.iter().map(String::as_str).chain([""]))
                .flat_map(|(a, b)| [a.as_str(), b])
                .collect();
            let redacted = redact(&text).text;
            let fits = without_kinds(&redacted) == stays.join("[redacted]");
            (!fits).then(|| format!("{line}\n    became {redacted}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn r126_ordinary_lines_stay_unchanged() {
    assert!(rows(ORDINARY).count() >= 150);
    let wrong: Vec<String> = rows(ORDINARY)
        .map(expand)
        .filter_map(|text| {
            let redacted = redact(&text);
            (redacted.text != text || !redacted.found.is_empty())
                .then(|| format!("{text}\n    became {}", redacted.text))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn r126_every_service_has_an_example_that_is_recognised_as_its_own() {
    let mut seen = BTreeSet::new();
    let mut wrong = Vec::new();
    for line in rows(SERVICES) {
        let (service, token) = line.split_once(" | ").expect(line);
        let redacted = redact(&format!("We deployed with {} and then the tests passed.", expand(token)));
        let found: Vec<Option<&str>> = redacted.found.iter().map(|found| found.service).collect();
        let around = redacted.text.starts_with("We deployed with ")
            && redacted.text.ends_with("] and then the tests passed.");
        if found != [Some(service)] || !around {
            wrong.push(format!("{line}\n    became {} of {found:?}", redacted.text));
        }
        seen.insert(service);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(seen, services().collect::<BTreeSet<_>>());
    assert!(seen.len() >= 60, "{}", seen.len());
}

fn random(length: usize) -> String {
    "aB3dE7gH1jK5mN9pQ2sT4vW6yZ8".chars().cycle().take(length).collect()
}

fn hex(length: usize) -> String {
    "0a1b2c3d4e5f6789".chars().cycle().take(length).collect()
}

/// Each secret is in a sentence whose other words must stay.
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
fn r126_known_shapes_are_removed_and_the_sentence_stays(#[case] secret: String) {
    let text = format!("We deployed with {secret} and then the tests passed.");
    let redacted = redact(&text);
    assert!(!redacted.text.contains(&secret), "{}", redacted.text);
    assert!(redacted.text.starts_with("We deployed with [redacted: "), "{}", redacted.text);
    assert!(redacted.text.ends_with("] and then the tests passed."), "{}", redacted.text);
    assert_eq!(redacted.found.len(), 1);
}

/// The text before a secret, the secret, the text after it.
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
fn r126_only_the_value_is_removed(#[case] before: &str, #[case] secret: &str, #[case] after: &str) {
    let redacted = redact(&format!("{before}{secret}{after}")).text;
    assert!(!redacted.contains(secret), "{redacted}");
    assert!(redacted.starts_with(before), "{redacted}");
    assert!(redacted.ends_with(after), "{redacted}");
}

#[test]
fn r126_private_key_blocks_are_removed_and_prose_after_a_broken_one_stays() {
    let body = format!("{}\n{}\n{}", random(64), random(64), "dGhlZW5k");
    let (begin, end) = ("-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----");
    let whole = redact(&format!("before\n{begin}\n{body}\n{end}\nafter it all")).text;
    assert_eq!(whole, "before\n[redacted: private key]\nafter it all");
    let broken = redact(&format!("{begin}\n{}\nAnd then we continued with the next file.", random(64))).text;
    assert_eq!(broken, "[redacted: private key]\nAnd then we continued with the next file.");
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

/// Repeated beginnings without an end: each must be examined without reading to the end of the text.
const BEGINNINGS: [&str; 52] = [
    "a",
    "-----BEGIN RSA PRIVATE KEY-----",
    "-----END RSA PRIVATE KEY-----",
    "eyJ",
    "-eyJ",
    "-eyJaaaaaaaa.",
    "x://a:",
    "redis://a:",
    "token=",
    "token:",
    "password:",
    "password ",
    "password is ",
    "password=\"",
    "password=(",
    "sk-",
    "sk-a1",
    "\"secret\": \"",
    "password\\\":\\\"",
    "key",
    "?key=",
    "&sig=",
    "signature=",
    "cookie=",
    "Cookie: a=b; ",
    "authorization=",
    "Authorization: Bearer ",
    "bearer ",
    "basic ",
    "mysql -p",
    "machine a login b password ",
    "echo a | sudo -S ",
    " -u",
    "<password>",
    "<password",
    "a:password:",
    "LS0tLS1CRUdJTiBSU0Eg/",
    "M-",
    ":5432:",
    ".atlasv1.",
    "aaaaaaaaaaaaaa.atlasv1.",
    "webhook.office.com/webhookb2/",
    "SG.",
    "AQE=",
    "identified by '",
    "mnemonic=a ",
    "密码：",
    "token=a&",
    "password (",
    "password for a b c d ",
    "${PASSWORD:-",
    "[redacted: secret value]",
];

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

/// Ten megabytes. Reading to the end from every beginning would take days.
#[test]
fn ten_megabytes_of_beginnings_are_read_in_linear_time() {
    let share = 10_000_000 / BEGINNINGS.len();
    let text: String = BEGINNINGS.iter().map(|seed| seed.repeat(share / seed.len())).collect();
    assert!(text.len() > 9_990_000);
    assert!(redact(&text).text.len() <= text.len() * 4);
}

#[test]
fn a_long_value_is_removed_completely() {
    let long = generate("a5000");
    for (before, after) in [
        ("API_TOKEN=", "\nnext"),
        ("{\"access_token\": \"", "\"}"),
        ("Authorization: Bearer ", " next"),
        ("https://x.org/?token=", "&a=1"),
    ] {
        let redacted = redact(&format!("{before}{long}{after}")).text;
        assert_eq!(without_kinds(&redacted), format!("{before}[redacted]{after}"));
    }
}

/// Pieces of texts: lines of the corpus, whole or cut, and what makes the difference between two notations.
fn piece() -> impl Strategy<Value = String> {
    let lines: Vec<String> = [SECRETS, SERVICES, ORDINARY]
        .into_iter()
        .flat_map(rows)
        .map(|line| expand(line).replace(['«', '»'], ""))
        .collect();
    let marks = [
        "=",
        ":",
        " ",
        "\"",
        "'",
        "\\",
        "\\n",
        "\n",
        "[redacted: secret value]",
        "[redacted: ",
        "]",
        "é",
        "😀",
        "→",
        "password",
        "token=",
        "://",
        "@",
        "<",
        ">",
        "&",
        "?key=",
        ";",
        "--",
        "(",
        ")",
        "{",
        "}",
        "|",
        "`",
        ",",
        "...",
        " is ",
        "\0",
    ];
    prop_oneof![
        3 => prop::sample::select(lines.clone()),
        2 => (prop::sample::select(lines), 0.0..1.0, 0.0..1.0).prop_map(|(line, from, to)| {
            let chars: Vec<char> = line.chars().collect();
            let place = |share: f64| (share * chars.len() as f64) as usize;
            chars[place(f64::min(from, to))..place(f64::max(from, to))].iter().collect()
        }),
        3 => prop::sample::select(marks.to_vec()).prop_map(str::to_owned),
    ]
}

proptest! {
    #[test]
    fn properties_redacting_twice_changes_nothing_more(text in "([a-z ]{0,20}|token=[a-z0-9]{4,9}|x://u:p1@h|sk-ant-[a-z0-9]{20}|password: [a-z0-9]{9}){0,6}") {
        let once = redact(&text).text;
        prop_assert_eq!(redact(&once).text, once);
    }

    #[test]
    fn properties_redacting_pieces_of_the_corpus_twice_changes_nothing_more(pieces in prop::collection::vec(piece(), 1..8)) {
        let once = redact(&pieces.concat()).text;
        prop_assert_eq!(redact(&once).text, once);
    }

    #[test]
    fn properties_text_without_a_finding_comes_back_unchanged(pieces in prop::collection::vec(piece(), 1..8)) {
        let text = pieces.concat();
        let redacted = redact(&text);
        prop_assert_eq!(redacted.found.is_empty(), redacted.text == text);
    }

    #[test]
    fn properties_any_text_is_survived(text in "\\PC{0,300}") {
        let _ = redact(&text);
    }

    #[test]
    fn properties_any_text_around_names_is_survived(texts in prop::collection::vec("(password|token=|api_key|://|\\PC{0,12}|\\p{Any}{0,4}){0,6}", 1..6)) {
        let _ = redact(&texts.concat());
    }
}
