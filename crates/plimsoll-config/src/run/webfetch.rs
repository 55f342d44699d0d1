//! Settings of the `webfetch` tool.

/// What `webfetch` may reach.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WebfetchConfig {
    /// Hosts, with a port or for all ports, that may lie on this machine or in a private network.
    pub hosts: Vec<String>,
    /// The proxy that pages are fetched through. It resolves names itself, so where they lead is its matter.
    pub proxy: Option<String>,
}
