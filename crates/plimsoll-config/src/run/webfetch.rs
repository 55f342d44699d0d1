//! Settings of the `webfetch` tool.

/// Which hosts `webfetch` may reach.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WebfetchConfig {
    /// Hosts on this machine or in a private network that are allowed, with a port or for all ports.
    pub hosts: Vec<String>,
    /// Proxy for fetching pages. It resolves names itself, so addresses are not checked here.
    pub proxy: Option<String>,
}
