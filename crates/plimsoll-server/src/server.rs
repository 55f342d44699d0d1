//! The server: set-up, listening, draining.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use plimsoll_host::{Host, HostError};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::accept::{self, Limits};
use crate::access::Access;
use crate::app::App;
use crate::options::{ServerError, ServerOptions};
use crate::routes;

/// A listening server. It answers requests while it [runs](Server::run).
pub struct Server {
    app: Arc<App>,
    access: Access,
    listener: TcpListener,
    address: SocketAddr,
    limits: Limits,
}

impl Server {
    /// Opens the database of the host's directory and listens. Everything that requests need is ready when this returns, so a
    /// client that can connect gets answers.
    pub async fn bind(host: Host, options: ServerOptions) -> Result<Server, ServerError> {
        let ServerOptions { hostname, port, user, password, allowed_hosts, .. } = options.clone();
        let address = format!("{}:{port}", bracketed(&hostname));
        let refused = |source| ServerError::Listen { address: address.clone(), source };
        let addresses: Vec<SocketAddr> = tokio::net::lookup_host(&address).await.map_err(refused)?.collect();
        let password = password.filter(|password| !password.is_empty());
        if password.is_none() && !addresses.iter().all(|address| is_loopback(address.ip())) {
            return Err(ServerError::PasswordRequired(hostname));
        }
        let limits = Limits { connections: options.connections, head: options.head_timeout };
        // Before the port is bound: a client that connected to a server whose database cannot be opened would only see its
        // connection close.
        let app = App::open(host, options).await?;
        let listener = TcpListener::bind(&addresses[..]).await.map_err(refused)?;
        let listens = listener.local_addr().map_err(refused)?;
        let credentials = password.as_deref().map(|password| (user.as_str(), password));
        let access = Access::new(&hostname, listens.ip(), &allowed_hosts, credentials);
        Ok(Server { app, access, listener, address: listens, limits })
    }

    /// Returns the address that the server listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns why prompts that name no model would fail in the root, such as a missing key; `None` if they can be answered.
    pub async fn model_problem(&self) -> Option<HostError> {
        let project = self.app.project(None).await.ok()?;
        project.setup.overrides().check(&project.setup.run).err().map(HostError::from)
    }

    /// Answers requests until `stop` is cancelled. Then it interrupts runs so that they can be continued, ends event streams,
    /// releases sessions, and gives open requests a few seconds to finish.
    pub async fn run(self, stop: CancellationToken) {
        let Server { app, access, listener, limits, .. } = self;
        let following = app.follow();
        let router = routes::router(Arc::clone(&app), access);
        let serving = accept::serve(listener, router, limits, stop.clone());
        let draining = async {
            stop.cancelled().await;
            app.stop().await;
        };
        tokio::join!(serving, draining);
        following.close();
        following.wait().await;
    }
}

/// Puts an IPv6 address in brackets, as required before a port.
fn bracketed(hostname: &str) -> String {
    match hostname.contains(':') && !hostname.starts_with('[') {
        true => format!("[{hostname}]"),
        false => hostname.to_owned(),
    }
}

fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}
