//! Environment of third-party programs.

use std::ffi::OsString;

/// Variables that programs need to find their files, use the user's language and reach the network.
const NEEDED: [&str; 33] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TERM",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_CTYPE",
    "LC_MESSAGES",
    "TZ",
    "TMPDIR",
    "TEMP",
    "TMP",
    "XDG_CONFIG_HOME",
    "XDG_CACHE_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "XDG_RUNTIME_DIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "NVM_DIR",
    "VOLTA_HOME",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
];

/// Returns the part of this process's environment that a third-party program needs. The rest may hold keys of clouds,
/// services and the user's other tools.
pub fn needed_environment() -> impl Iterator<Item = (&'static str, OsString)> {
    let found = NEEDED.into_iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
    // A proxy's address may contain a password.
    found.filter(|(name, value)| {
        !name.to_ascii_lowercase().ends_with("_proxy") || !value.as_encoded_bytes().contains(&b'@')
    })
}
