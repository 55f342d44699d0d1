//! Shapes of secrets, and the mark that replaces them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A secret that was replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Found {
    /// Shape of the secret.
    pub kind: SecretKind,
    /// The service that issues such secrets, if the shape identifies it.
    pub service: Option<&'static str>,
}

/// Shapes of secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum SecretKind {
    /// A private key in PEM or PGP armour.
    PrivateKey,
    /// The key of a cloud provider.
    CloudKey,
    /// The key of a model provider.
    ProviderKey,
    /// A token of a code host, package registry, chat or other service.
    ServiceToken,
    /// A JSON web token.
    Jwt,
    /// The password in a URL.
    UrlPassword,
    /// The value of an authorisation or cookie header.
    Header,
    /// The value of something named like a secret.
    Assignment,
}

impl fmt::Display for SecretKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SecretKind::PrivateKey => "private key",
            SecretKind::CloudKey => "cloud key",
            SecretKind::ProviderKey => "API key",
            SecretKind::ServiceToken => "service token",
            SecretKind::Jwt => "JWT",
            SecretKind::UrlPassword => "URL password",
            SecretKind::Header => "credential header",
            SecretKind::Assignment => "secret value",
        })
    }
}

/// Beginning of the mark that replaces a secret. Text with this mark is not searched again.
pub(crate) const MARK: &str = "[redacted: ";
