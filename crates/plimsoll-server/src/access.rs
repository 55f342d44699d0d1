//! Access checks: `Host`, `Origin` and the password of a request.
//!
//! The server can run commands on this machine, so a web page that a user happens to visit must not reach it. Browsers send
//! requests to loopback on behalf of any page, and a name that a page controls can resolve to 127.0.0.1 (DNS rebinding).
//! Hence `Host` must name this server, and `Origin`, if there is one, must be the server's own, for every method: a GET has
//! effects too, such as opening an event stream, and tower-http's `CsrfLayer` lets it pass.

use std::net::IpAddr;

use axum::http::header::{AUTHORIZATION, HOST, HeaderName, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method, Uri};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use subtle::ConstantTimeEq;

use crate::error::{ApiError, ApiResult};

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// Rules that every request must satisfy.
#[derive(Clone)]
pub(crate) struct Access {
    /// Names that `Host` may have besides loopback.
    hosts: Vec<String>,
    /// Whether `Host` may be any IP address. DNS rebinding needs a name; a page cannot rebind an address.
    any_address: bool,
    /// BLAKE3 of `user:password`. Hashes have a fixed length, so comparing them does not reveal the length of the password.
    credentials: Option<[u8; 32]>,
}

impl Access {
    /// Returns the rules for a server that listens on `listen` under `hostname`.
    pub(crate) fn new(
        hostname: &str,
        listen: IpAddr,
        allowed: &[String],
        credentials: Option<(&str, &str)>,
    ) -> Access {
        let mut hosts: Vec<String> = allowed.iter().map(|host| host.to_ascii_lowercase()).collect();
        hosts.push(hostname.to_ascii_lowercase());
        let credentials = credentials
            .map(|(user, password)| *blake3::hash(format!("{user}:{password}").as_bytes()).as_bytes());
        Access { hosts, any_address: !listen.is_loopback(), credentials }
    }

    /// Checks a request by its head.
    pub(crate) fn check(&self, method: &Method, headers: &HeaderMap, uri: &Uri) -> ApiResult<()> {
        let host = self.check_host(headers, uri)?;
        check_origin(method, headers, uri, &host)?;
        self.check_credentials(headers)
    }

    fn check_host(&self, headers: &HeaderMap, uri: &Uri) -> ApiResult<Authority> {
        let mut hosts = headers.get_all(HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else {
            return Err(ApiError::forbidden("a request needs one `Host` header"));
        };
        let refused = || ApiError::forbidden("`Host` does not name this server");
        let host: Authority = host.to_str().ok().and_then(|host| host.parse().ok()).ok_or_else(refused)?;
        // A target in absolute form has an authority too. If it differs from `Host`, it is unclear which one is meant.
        if uri.authority().is_some_and(|target| target.as_str() != host.as_str()) {
            return Err(refused());
        }
        let name = host.host().trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        let is_ours = match name.parse::<IpAddr>() {
            Ok(address) => address.is_loopback() || self.any_address || self.hosts.contains(&name),
            Err(_) => name == "localhost" || self.hosts.contains(&name),
        };
        if is_ours { Ok(host) } else { Err(refused()) }
    }

    fn check_credentials(&self, headers: &HeaderMap) -> ApiResult<()> {
        let Some(expected) = &self.credentials else { return Ok(()) };
        let sent = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let (scheme, encoded) = sent.split_once(' ').unwrap_or_default();
        let decoded = match scheme.eq_ignore_ascii_case("basic") {
            true => STANDARD.decode(encoded.trim()).unwrap_or_default(),
            false => Vec::new(),
        };
        let is_equal: bool = blake3::hash(&decoded).as_bytes().ct_eq(expected).into();
        if is_equal { Ok(()) } else { Err(ApiError::unauthorized()) }
    }
}

/// Rejects requests sent by pages of other origins.
fn check_origin(method: &Method, headers: &HeaderMap, uri: &Uri, host: &Authority) -> ApiResult<()> {
    let refused = || ApiError::forbidden("requests of other origins are refused");
    for origin in headers.get_all(ORIGIN) {
        let origin = origin.to_str().map_err(|_| refused())?;
        // Only the authority is compared: behind a proxy that terminates TLS the scheme differs.
        let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        if authority != Some(host.as_str()) {
            return Err(refused());
        }
    }
    // Browsers omit `Origin` from some GET requests, such as those for images, but send this header.
    match headers.get(FETCH_SITE).map(|site| site.as_bytes()) {
        None | Some(b"same-origin" | b"none") => Ok(()),
        Some(_) if is_link_to_page(method, headers, uri) => Ok(()),
        Some(_) => Err(refused()),
    }
}

/// Whether this is a user following a link on another site to the page. That is safe: loading the page has no effects, the
/// linking site cannot read it, and it cannot be framed.
fn is_link_to_page(method: &Method, headers: &HeaderMap, uri: &Uri) -> bool {
    let is =
        |name: &HeaderName, value: &[u8]| headers.get(name).is_some_and(|found| found.as_bytes() == value);
    *method == Method::GET
        && uri.path() == "/"
        && uri.query().is_none()
        && is(&FETCH_MODE, b"navigate")
        && is(&FETCH_DEST, b"document")
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use axum::http::{HeaderMap, HeaderValue, Method, Uri};

    use super::Access;

    fn status(access: &Access, headers: &[(&'static str, &str)]) -> u16 {
        status_of(access, &Method::GET, "/session", headers)
    }

    fn status_of(
        access: &Access,
        method: &Method,
        path: &'static str,
        headers: &[(&'static str, &str)],
    ) -> u16 {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_str(value).unwrap());
        }
        let checked = access.check(method, &map, &Uri::from_static(path));
        checked.map_or_else(|error| error.status.as_u16(), |()| 200)
    }

    #[test]
    fn host_and_origin_must_be_the_servers_own() {
        let access = Access::new("127.0.0.1", IpAddr::V4(Ipv4Addr::LOCALHOST), &[], None);
        for (expected, headers) in [
            (200, &[("host", "127.0.0.1:4096")][..]),
            (200, &[("host", "localhost:4096")]),
            (200, &[("host", "[::1]:4096")]),
            (200, &[("host", "localhost:4096"), ("origin", "http://localhost:4096")]),
            (200, &[("host", "localhost:4096"), ("sec-fetch-site", "same-origin")]),
            (403, &[]),
            (403, &[("host", "evil.example")]),
            (403, &[("host", "localhost.evil.example:4096")]),
            (403, &[("host", "192.168.1.7:4096")]),
            (403, &[("host", "127.0.0.1:4096"), ("host", "127.0.0.1:4096")]),
            (403, &[("host", "localhost:4096"), ("origin", "http://localhost:3000")]),
            (403, &[("host", "localhost:4096"), ("origin", "https://evil.example")]),
            (403, &[("host", "localhost:4096"), ("origin", "null")]),
            (403, &[("host", "localhost:4096"), ("sec-fetch-site", "cross-site")]),
            (403, &[("host", "localhost:4096"), ("sec-fetch-site", "same-site")]),
        ] {
            assert_eq!(status(&access, headers), expected, "{headers:?}");
        }
    }

    #[test]
    fn a_link_of_another_site_leads_to_the_page_and_nowhere_else() {
        let access = Access::new("127.0.0.1", IpAddr::V4(Ipv4Addr::LOCALHOST), &[], None);
        let (host, site) = (("host", "127.0.0.1:4096"), ("sec-fetch-site", "cross-site"));
        let (mode, dest) = (("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document"));
        let link = [host, site, mode, dest];
        assert_eq!(status_of(&access, &Method::GET, "/", &link), 200);
        assert_eq!(status_of(&access, &Method::GET, "/?directory=%2Fa", &link), 403);
        assert_eq!(status_of(&access, &Method::GET, "/session", &link), 403);
        assert_eq!(status_of(&access, &Method::POST, "/", &link), 403);
        assert_eq!(status_of(&access, &Method::GET, "/", &[host, site]), 403, "not a navigation");
        let frame = [host, site, mode, ("sec-fetch-dest", "iframe")];
        assert_eq!(status_of(&access, &Method::GET, "/", &frame), 403, "in a frame");
        let origin = [host, site, mode, dest, ("origin", "https://evil.example")];
        assert_eq!(status_of(&access, &Method::GET, "/", &origin), 403);
    }

    #[test]
    fn other_addresses_accept_ip_addresses_and_named_hosts_only() {
        let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let access = Access::new("0.0.0.0", any, &["box.lan".to_owned()], Some(("opencode", "harbour")));
        let right = "Basic b3BlbmNvZGU6aGFyYm91cg==";
        assert_eq!(status(&access, &[("host", "192.168.1.7:4096"), ("authorization", right)]), 200);
        assert_eq!(status(&access, &[("host", "box.lan"), ("authorization", right)]), 200);
        assert_eq!(status(&access, &[("host", "evil.example"), ("authorization", right)]), 403);
    }

    #[test]
    fn a_password_is_required_once_one_is_set() {
        let access =
            Access::new("localhost", IpAddr::V4(Ipv4Addr::LOCALHOST), &[], Some(("opencode", "harbour")));
        let host = ("host", "localhost:4096");
        assert_eq!(status(&access, &[host, ("authorization", "Basic b3BlbmNvZGU6aGFyYm91cg==")]), 200);
        for wrong in
            ["", "Basic", "Basic !", "Basic b3BlbmNvZGU6", "Bearer harbour", "Basic b3BlbmNvZGU6SGFyYm91cg=="]
        {
            assert_eq!(status(&access, &[host, ("authorization", wrong)]), 401, "{wrong}");
        }
        assert_eq!(status(&access, &[host]), 401);
    }
}
