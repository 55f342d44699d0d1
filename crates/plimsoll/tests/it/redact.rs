//! Messages without secrets. The texts themselves are tested in `plimsoll-redact`.

use plimsoll::redact::redact_messages;
use plimsoll_testkit::History;
use serde_json::json;

#[test]
fn secrets_are_redacted_in_all_fields_of_messages() {
    let secret = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
    let history = History::new()
        .user(format!("use {secret} to push"))
        .think(format!("the token is {secret}"), format!("I use {secret}."))
        .tool_with(
            "bash",
            json!({ "command": format!("git push https://{secret}@github.com/a/b") }),
            format!("to {secret}\nok"),
        )
        .tool_with("login", json!({ "user": "me", "password": "correct-horse-7" }), "in")
        .user("nothing here");
    let mut messages = history.messages();
    let before = messages.clone();
    let found = redact_messages(&mut messages);
    let text = serde_json::to_string(&messages).unwrap();
    assert!(!text.contains(&secret) && !text.contains("correct-horse-7"), "{text}");
    assert!(found.len() >= 6, "{found:?}");
    assert_eq!(messages.last(), before.last(), "messages without secrets are unchanged");
    assert!(redact_messages(&mut messages).is_empty(), "twice changes nothing more");
    // A digest that cuts redacted text does not contain half of a secret.
    let digest = plimsoll::fork::fork(&messages, &plimsoll::Policy::default().fork).message().unwrap();
    assert!(!digest.contains(&secret[..12]), "{digest}");
}
