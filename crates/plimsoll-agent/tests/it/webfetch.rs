//! Pages of local servers, configured or not, and names that resolve to forbidden addresses.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{IpAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use plimsoll_agent::tools::Webfetch;
use plimsoll_agent::{Conversation, Event, parse_allow};
use plimsoll_config::{Action, WebfetchConfig};
use plimsoll_testkit::server::{ModelServer, Reply};
use serde_json::{Value, json};

use crate::support::{Dock, run};

/// A web server with prepared responses, which records the requests.
struct Site {
    port: u16,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Site {
    fn start(answer: impl Fn(&str, u16) -> Vec<u8> + Send + 'static) -> Site {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let heads: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = Arc::clone(&heads);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut head = String::new();
                let mut lines = BufReader::new(stream.try_clone().unwrap());
                while lines.read_line(&mut head).is_ok_and(|count| count > 2) {}
                let path = head.split_whitespace().nth(1).unwrap_or_default().to_owned();
                seen.lock().unwrap().push(head);
                let mut stream = stream;
                let _ = stream.write_all(&answer(&path, port));
            }
        });
        Site { port, heads }
    }

    fn asked(&self) -> usize {
        self.heads.lock().unwrap().len()
    }
}

fn page(kind: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

fn redirect(to: &str) -> Vec<u8> {
    format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        .into_bytes()
}

fn plain_site() -> Site {
    Site::start(|path, _| page("text/html", format!("<h1>Page {path}</h1>").as_bytes()))
}

/// Resolves names ending in `.test` like a hostile DNS server, and no others.
fn lookup(name: &str) -> io::Result<Vec<IpAddr>> {
    let addresses: &[&str] = match name {
        "local.test" | "www.local.test" | "other.test" => &["127.0.0.1"],
        "private.test" => &["10.1.2.3"],
        "cloud.test" => &["169.254.169.254"],
        "mapped.test" => &["::ffff:127.0.0.1"],
        "mixed.test" => &["192.0.2.1", "127.0.0.1", "::1"],
        _ => return Err(io::Error::other("no such name")),
    };
    Ok(addresses.iter().map(|address| address.parse().unwrap()).collect())
}

struct Fetcher {
    dock: Dock,
    talk: Conversation,
}

impl Fetcher {
    async fn new(hosts: &[String], rules: &[(&str, Action)]) -> Fetcher {
        let mut dock = Dock::new(ModelServer::start().unwrap());
        for (rule, action) in rules {
            let mut rule = parse_allow(rule, None).unwrap();
            rule.action = *action;
            dock.agent.profile.permissions.rules.push(rule);
        }
        let config = WebfetchConfig { hosts: hosts.to_vec(), proxy: None };
        let tool = Webfetch::configured(config).resolving(lookup);
        dock.agent.profile.tools = dock.agent.profile.tools.clone().with(tool);
        dock.agent.profile.limits.repeats = 0;
        let talk = dock.begin().await;
        Fetcher { dock, talk }
    }

    async fn allowed(hosts: &[String]) -> Fetcher {
        Fetcher::new(hosts, &[("webfetch", Action::Allow)]).await
    }

    async fn call(&mut self, input: Value) -> String {
        let id = format!("call_{}", self.dock.server.requests().len());
        self.dock.server.push_all([Reply::new().call(&id, "webfetch", input), Reply::new().text("Thanks.")]);
        run(&mut self.talk, "Do it").await;
        self.dock.server.last().unwrap().result(&id).unwrap().to_owned()
    }

    async fn get(&mut self, url: &str) -> String {
        self.call(json!({ "url": url })).await
    }
}

#[tokio::test]
async fn a_page_comes_as_markdown_text_or_source() {
    let site = Site::start(|path, _| match path {
        "/page" => page("text/html; charset=iso-8859-1", b"<h1>Gr\xfc\xdfe</h1><p>A <b>word</b>."),
        "/plain" => page("text/plain", b"a < b"),
        "/packed" => {
            let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            packer.write_all(b"unpacked").unwrap();
            let body = packer.finish().unwrap();
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            [head.into_bytes(), body].concat()
        }
        "/image" => page("image/png", b"\x89PNG"),
        "/long" => page("text/plain", &vec![b'x'; 6 << 20]),
        _ => b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_vec(),
    });
    let at = format!("http://local.test:{}", site.port);
    let mut fetcher = Fetcher::allowed(&[format!("local.test:{}", site.port)]).await;
    assert_eq!(fetcher.get(&format!("{at}/page")).await, "# Gr\u{fc}\u{df}e\n\nA **word**.");
    let text = fetcher.call(json!({ "url": format!("{at}/page"), "format": "text" })).await;
    assert_eq!(text, "Gr\u{fc}\u{df}e\nA word.");
    let html = fetcher.call(json!({ "url": format!("{at}/page"), "format": "html" })).await;
    assert!(html.starts_with("<h1>Gr\u{fc}\u{df}e</h1>"), "{html}");
    assert_eq!(fetcher.get(&format!("{at}/plain")).await, "a < b");
    assert_eq!(fetcher.get(&format!("{at}/packed")).await, "unpacked");
    assert!(fetcher.get(&format!("{at}/image")).await.contains("is not text but `image/png`"));
    assert!(fetcher.get(&format!("{at}/none")).await.contains("answered 404 Not Found"));
    let long = fetcher.get(&format!("{at}/long")).await;
    assert!(long.len() < 200_000 && long.contains("spill_"), "through layer 1: {}", long.len());
    assert!(long.contains("the rest was not fetched"), "{}", &long[long.len() - 300..]);
    let heads = site.heads.lock().unwrap();
    assert!(
        heads
            .iter()
            .all(|head| !head.to_lowercase().contains("cookie") && !head.to_lowercase().contains("referer"))
    );
}

#[tokio::test]
async fn this_machine_and_private_networks_are_refused_by_number_and_by_name() {
    let site = plain_site();
    let port = site.port;
    let mut fetcher = Fetcher::allowed(&[]).await;
    for host in [
        "127.0.0.1",
        "localhost",
        "127.1",
        "2130706433",
        "0x7f000001",
        "017700000001",
        "0.0.0.0",
        "0",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[64:ff9b::7f00:1]",
        "local.test",
        "mapped.test",
        "user:pass@127.0.0.1",
        "LOCAL.test",
        "10.0.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.1.1",
        "224.0.0.1",
        "[fe80::1]",
        "[fd00::1]",
        "private.test",
        "cloud.test",
    ] {
        let begun = Instant::now();
        let output = fetcher.get(&format!("http://{host}:{port}/")).await;
        // The fake resolver has no `localhost`; without an address nothing can be reached either.
        assert!(output.starts_with("Refused:") || host == "localhost", "{host}: {output}");
        assert!(output.contains("webfetch.hosts") || host == "localhost", "{host}: {output}");
        assert!(!output.contains("pass"), "{output}");
        assert!(begun.elapsed() < Duration::from_secs(20), "nothing was waited for");
    }
    assert_eq!(site.asked(), 0, "nothing was asked");
    for (url, problem) in [
        ("file:///etc/passwd", "must begin with"),
        ("ftp://local.test/", "must begin with"),
        ("gopher://local.test/", "must begin with"),
        ("data:text/plain,x", "must begin with"),
        ("/etc/passwd", "not an address"),
        ("http://", "not an address"),
    ] {
        let output = fetcher.get(url).await;
        assert!(output.contains(problem), "{url}: {output}");
    }
}

#[tokio::test]
async fn the_name_of_this_machine_is_refused_as_the_system_knows_it() {
    let site = plain_site();
    let mut dock = Dock::new(ModelServer::start().unwrap()).allow("webfetch");
    dock.agent.profile.tools = dock.agent.profile.tools.clone().with(Webfetch::new());
    let mut fetcher = Fetcher { talk: dock.begin().await, dock };
    let output = fetcher.get(&format!("http://localhost:{}/", site.port)).await;
    assert!(output.starts_with("Refused: `localhost` is this machine itself"), "{output}");
    assert_eq!(site.asked(), 0);
}

#[tokio::test]
async fn a_name_with_several_addresses_none_of_them_open_is_refused() {
    let site = plain_site();
    let mut fetcher = Fetcher::allowed(&[]).await;
    let url = format!("http://mixed.test:{}/", site.port);
    let output = fetcher.call(json!({ "url": url, "timeout": 2 })).await;
    assert!(output.starts_with("Refused:"), "{output}");
    assert_eq!(site.asked(), 0);
}

#[tokio::test]
async fn a_configured_host_is_reached_only_on_its_port() {
    let (site, other) = (plain_site(), plain_site());
    let hosts = [format!("local.test:{}", site.port), format!("127.0.0.1:{}", site.port)];
    let mut fetcher = Fetcher::allowed(&hosts).await;
    for host in ["local.test", "LOCAL.test", "127.0.0.1", "2130706433"] {
        let output = fetcher.get(&format!("http://{host}:{}/a", site.port)).await;
        assert!(output.contains("# Page /a"), "{host}: {output}");
        let output = fetcher.get(&format!("http://{host}:{}/", other.port)).await;
        assert!(output.starts_with("Refused:"), "{host}: {output}");
    }
    assert!(fetcher.get(&format!("http://other.test:{}/", site.port)).await.starts_with("Refused:"));
    assert_eq!(other.asked(), 0);
    let mut every_port = Fetcher::allowed(&["local.test".into()]).await;
    assert!(every_port.get(&format!("http://local.test:{}/", other.port)).await.contains("# Page"));
}

#[tokio::test]
async fn each_redirect_is_checked_like_the_first_address() {
    let secret = plain_site();
    let hidden = secret.port;
    let site = Site::start(move |path, port| match path {
        "/same" => redirect("/there"),
        "/www" => redirect(&format!("http://www.local.test:{port}/there")),
        "/number" => redirect(&format!("http://127.0.0.1:{hidden}/")),
        "/short" => redirect(&format!("http://2130706433:{hidden}/")),
        "/v6" => redirect(&format!("http://[::ffff:127.0.0.1]:{hidden}/")),
        "/name" => redirect(&format!("http://private.test:{hidden}/")),
        "/port" => redirect(&format!("http://local.test:{hidden}/")),
        "/file" => redirect("file:///etc/passwd"),
        "/loop" => redirect("/loop"),
        "/other" => redirect(&format!("http://other.test:{port}/there")),
        _ => page("text/html", b"<p>There."),
    });
    let at = format!("http://local.test:{}", site.port);
    let hosts: Vec<String> =
        ["local.test", "www.local.test", "other.test"].map(|host| format!("{host}:{}", site.port)).to_vec();
    let mut fetcher = Fetcher::allowed(&hosts).await;
    assert_eq!(fetcher.get(&format!("{at}/same")).await, format!("[from {at}/there]\n\nThere."));
    assert!(fetcher.get(&format!("{at}/www")).await.ends_with("There."));
    for path in ["number", "short", "v6", "name", "port"] {
        let output = fetcher.get(&format!("{at}/{path}")).await;
        assert!(output.starts_with("Refused:"), "{path}: {output}");
    }
    assert!(fetcher.get(&format!("{at}/file")).await.contains("not HTTP or HTTPS"));
    assert!(fetcher.get(&format!("{at}/loop")).await.contains("more than 10 redirects"));
    assert_eq!(secret.asked(), 0);
    // If the rules allow every page, a redirect to another host is followed, without user name and password.
    let output = fetcher.get(&format!("http://me:hunter2@local.test:{}/other", site.port)).await;
    assert!(output.ends_with("There."), "{output}");
    let heads = site.heads.lock().unwrap().clone();
    let last: Vec<_> = heads.iter().rev().take(2).collect();
    assert!(!last[0].to_lowercase().contains("authorization"), "{}", last[0]);
    assert!(last[1].to_lowercase().contains("authorization"), "the first host was meant: {}", last[1]);
}

#[tokio::test]
async fn rules_are_asked_about_the_host_that_a_page_redirects_to() {
    let site = Site::start(move |path, port| match path {
        "/other" => redirect(&format!("http://other.test:{port}/there?token=1")),
        "/secret" => redirect("/private/page"),
        _ => page("text/html", b"<p>There."),
    });
    let hosts: Vec<String> =
        ["local.test", "other.test"].map(|host| format!("{host}:{}", site.port)).to_vec();
    let rule = format!("webfetch:http://local.test:{}/*", site.port);
    let denied = format!("webfetch:http://local.test:{}/private/*", site.port);
    let mut fetcher = Fetcher::new(&hosts, &[(&rule, Action::Allow), (&denied, Action::Deny)]).await;
    let at = format!("http://local.test:{}", site.port);
    let output = fetcher.get(&format!("{at}/other")).await;
    assert!(output.contains("redirects to another host: http://other.test"), "{output}");
    assert_eq!(site.asked(), 1);
    assert!(fetcher.get(&format!("http://other.test:{}/", site.port)).await.starts_with("Denied:"));
    assert!(fetcher.get(&format!("{at}/secret")).await.contains("which is denied"));
    // Notations of an address that might evade a rule.
    for url in [
        format!("http://local.test:{}/x/../private/page", site.port),
        format!("http://LOCAL.TEST:{}/private/page", site.port),
        format!("http://local.test:{}/./private/page", site.port),
        format!("http://local.test:{}/x/%2e%2e/private/page", site.port),
        format!("http://local.test:{}\\private/page", site.port),
        format!(" http://local.test:{}/private/page\n", site.port),
        format!("http://local.test:{}/pri\tvate/page", site.port),
        format!("http://other.test:{}/http://local.test:{}/", site.port, site.port),
        format!("http://local.test:{}@other.test:{}/", site.port, site.port),
    ] {
        let output = fetcher.get(&url).await;
        assert!(output.starts_with("Denied:"), "{url}: {output}");
    }
}

#[tokio::test]
async fn a_page_that_does_not_come_ends_in_time_and_when_it_is_cancelled() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut fetcher = Fetcher::allowed(&["local.test".into()]).await;
    let url = format!("http://local.test:{port}/");
    let begun = Instant::now();
    let output = fetcher.call(json!({ "url": url, "timeout": 1 })).await;
    assert!(output.contains("took more than 1 s"), "{output}");
    assert!(begun.elapsed() < Duration::from_secs(30));
    fetcher.dock.server.push_all([Reply::new().call("last", "webfetch", json!({ "url": url }))]);
    let cancel = tokio_util::sync::CancellationToken::new();
    let token = cancel.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(300)).await;
        token.cancel();
    });
    let begun = Instant::now();
    fetcher.talk.run("Again", &cancel).await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn without_a_rule_nothing_is_fetched_and_the_user_gets_a_hint() {
    let site = plain_site();
    let mut fetcher = Fetcher::new(&["local.test".into()], &[]).await;
    let output = fetcher.get(&format!("http://local.test:{}/a?b", site.port)).await;
    assert!(output.starts_with("Denied:"), "{output}");
    assert_eq!(site.asked(), 0);
    let events = fetcher.dock.events.lock().unwrap();
    let flag = events.iter().find_map(|event| match event {
        Event::Denied { allow, .. } => allow.clone(),
        _ => None,
    });
    assert_eq!(flag.unwrap(), format!("--allow 'webfetch:http://local.test:{}/*'", site.port));
}

/// A proxy receives every request, even for addresses that are rejected without one, because it resolves names itself.
#[tokio::test]
async fn a_configured_proxy_is_used_and_rules_still_apply() {
    let proxy = plain_site();
    let fetcher = async |proxy: Option<String>| {
        let mut dock = Dock::new(ModelServer::start().unwrap()).allow("webfetch");
        let mut deny = parse_allow("webfetch:http://denied.test/*", None).unwrap();
        deny.action = Action::Deny;
        dock.agent.profile.permissions.rules.push(deny);
        let config = WebfetchConfig { hosts: Vec::new(), proxy };
        let tool = Webfetch::configured(config);
        dock.agent.profile.tools = dock.agent.profile.tools.clone().with(tool);
        dock.agent.profile.limits.repeats = 0;
        let talk = dock.begin().await;
        Fetcher { dock, talk }
    };
    let mut through = fetcher(Some(format!("http://127.0.0.1:{}", proxy.port))).await;
    let said = through.get("http://page.invalid/depth").await;
    assert!(said.contains("Page http://page.invalid/depth"), "{said}");
    assert!(proxy.heads.lock().unwrap()[0].starts_with("GET http://page.invalid/depth HTTP/1.1"));
    // Numeric addresses of this machine and of private networks are rejected before the proxy is used.
    for url in ["http://127.0.0.1/", "http://169.254.169.254/latest", "http://[::1]/"] {
        let said = through.get(url).await;
        assert!(!said.contains("Page"), "{url}: {said}");
    }
    assert!(through.get("http://denied.test/").await.starts_with("Denied:"));
    assert_eq!(proxy.asked(), 1);
    // Without one, the name does not resolve.
    let mut direct = fetcher(None).await;
    assert!(!direct.get("http://page.invalid/depth").await.contains("Page"));
    assert_eq!(proxy.asked(), 1);
}
