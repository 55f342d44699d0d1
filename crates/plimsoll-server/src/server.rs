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

/// A server that listens, and answers once it [runs](Server::run).
pub struct Server {
    app: Arc<App>,
    access: Access,
    listener: TcpListener,
    address: SocketAddr,
    limits: Limits,
}

impl Server {
    /// Opens the database of the host's directory, and listens. Everything that a request needs is ready when this returns, so
    /// that a client which can connect is answered.
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
        // Before anything can connect.
        let app = App::open(host, options).await?;
        let listener = TcpListener::bind(&addresses[..]).await.map_err(refused)?;
        let listens = listener.local_addr().map_err(refused)?;
        let credentials = password.as_deref().map(|password| (user.as_str(), password));
        let access = Access::new(&hostname, listens.ip(), &allowed_hosts, credentials);
        Ok(Server { app, access, listener, address: listens, limits })
    }

    /// The address that the server listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Why prompts that name no model would fail in the root, such as a missing key; `None` if they can be answered.
    pub async fn model_problem(&self) -> Option<HostError> {
        let project = self.app.project(None).await.ok()?;
        project.setup.overrides().check(&project.setup.run).err().map(HostError::from)
    }

    /// Answers requests until `stop` is cancelled. Then runs are interrupted at a point from which they can continue, event streams
    /// end, sessions are released, and open requests have some seconds to end.
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

/// An IPv6 address in brackets, as URLs require before a port.
fn bracketed(hostname: &str) -> String {
    match hostname.contains(':') && !hostname.starts_with('[') {
        true => format!("[{hostname}]"),
        false => hostname.to_owned(),
    }
}

fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}
