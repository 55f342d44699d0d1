//! The page at `/`.

use crate::support::TestServer;

#[tokio::test(flavor = "multi_thread")]
async fn the_page_is_served_with_a_strict_policy() {
    let server = TestServer::start().await;
    for (path, kind) in [("/", "text/html"), ("/page.js", "text/javascript"), ("/page.css", "text/css")] {
        let answer = server.get(path).await;
        assert_eq!(answer.status, 200, "{path}");
        assert!(answer.header("content-type").unwrap().starts_with(kind), "{path}");
        assert_eq!(answer.header("cache-control").unwrap(), "no-store");
        assert_eq!(answer.header("x-content-type-options").unwrap(), "nosniff");
        assert!(!answer.body.is_empty(), "{path}");
    }
    let policy = server.get("/").await.header("content-security-policy").unwrap();
    for rule in [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ] {
        assert!(policy.split("; ").any(|one| one == rule), "{rule} in {policy}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_needs_nothing_but_this_server() {
    let server = TestServer::start().await;
    let document = server.get("/").await.body;
    let links = document.split(['"', '\'']).filter(|text| text.contains("//"));
    assert_eq!(links.collect::<Vec<_>>(), Vec::<&str>::new());
    assert!(
        !document.contains("<style") && !document.contains(" style="),
        "the policy allows no inline style"
    );
    let script = server.get("/page.js").await.body;
    for markup in [
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
        "DOMParser",
    ] {
        assert!(!script.contains(markup), "transcripts are text: {markup}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_of_another_site_leads_to_the_page_but_drives_nothing() {
    let server = TestServer::start().await;
    let link =
        [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
    assert_eq!(server.send("GET", "/", &link, "").await.status, 200);
    for (method, path) in
        [("GET", "/session"), ("GET", "/plimsoll/sessions"), ("POST", "/"), ("GET", "/page.js")]
    {
        assert_eq!(server.send(method, path, &link, "").await.status, 403, "{method} {path}");
    }
}
