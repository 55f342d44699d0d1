//! `plimsoll serve`: sessions over HTTP.

use std::process::ExitCode;
use std::time::Duration;

use plimsoll_host::{Host, HostError, reason};
use plimsoll_server::{Metrics, Server, ServerError, ServerOptions, USER};
use tokio_util::sync::CancellationToken;

use crate::args::ServeArgs;
use crate::error::CommandResult;
use crate::interrupt;
use crate::output::{Output, note};

/// Serves sessions over HTTP.
pub(crate) fn run(args: &ServeArgs, host: &Host, output: &mut Output) -> CommandResult {
    // The server releases its sessions itself when it stops.
    let host = host.clone().with_leases(interrupt::leases_without_signals());
    let options = options(args, &host)?;
    let (needs_password, stop) = (options.password.is_some(), CancellationToken::new());
    interrupt::cancel_first(stop.clone());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let server = Server::bind(host, options).await.map_err(failed)?;
        let address = format!("http://{}", server.address());
        // On standard output and flushed at once: scripts start the server with `--port 0` and read its address.
        match output.json {
            true => output.json(&serde_json::json!({ "url": address }))?,
            false => output.words(&format!("plimsoll serves {address}"))?,
        }
        output.flush()?;
        note(match needs_password {
            true => "every request needs the password",
            false => "only this machine can reach the server, and any of its users; a password is not set",
        });
        // Sessions can be viewed and reduced without a model, and a client may name another one.
        if let Some(problem) = server.model_problem().await {
            note(&format!("note: {}: sessions can be viewed, but prompts fail", problem.message()));
            if let Some(hint) = problem.hints().first().and_then(|hint| hint.lines().next()) {
                note(&format!("hint: {hint}"));
            }
        }
        server.run(stop).await;
        Ok::<_, HostError>(())
    })?;
    // Threads that wait for a command to end do not keep the process.
    runtime.shutdown_background();
    Ok(ExitCode::SUCCESS)
}

fn options(args: &ServeArgs, host: &Host) -> Result<ServerOptions, HostError> {
    let in_file = args.password_file.as_deref().map(|file| {
        let text = std::fs::read_to_string(file).map_err(|error| {
            HostError::usage(format!("cannot read `{}`: {}", file.display(), reason(&error)))
        })?;
        let password = text.lines().next().unwrap_or_default().to_owned();
        match password.is_empty() {
            true => Err(HostError::usage(format!("`{}` has no password in its first line", file.display()))),
            false => Ok(password),
        }
    });
    let in_variable = || host.env.variable("OPENCODE_SERVER_PASSWORD").map(str::to_owned);
    let metrics = Metrics::default();
    // A process has one recorder; without it `/plimsoll/metrics` would show nothing.
    let is_recording = metrics::set_global_recorder(metrics.clone()).is_ok();
    Ok(ServerOptions {
        hostname: args.hostname.clone(),
        port: args.port,
        user: host.env.variable("OPENCODE_SERVER_USERNAME").unwrap_or(USER).to_owned(),
        password: in_file.transpose()?.or_else(in_variable),
        allowed_hosts: args.allowed_host.clone(),
        agent: args.agent_options(),
        permission_timeout: Duration::from_secs(args.permission_timeout.max(1)),
        metrics: is_recording.then_some(metrics),
        ..ServerOptions::default()
    })
}

fn failed(error: ServerError) -> HostError {
    match error {
        ServerError::Host(error) => error,
        ServerError::PasswordRequired(_) => HostError::usage(error.to_string())
            .hint("set OPENCODE_SERVER_PASSWORD, or name a file with `--password-file`"),
        ServerError::Listen { ref source, .. } if source.kind() == std::io::ErrorKind::AddrInUse => {
            HostError::failed(error.to_string())
                .hint("choose another port with `--port`, or 0 for a free one")
                .caused_by(error)
        }
        other => HostError::failed(other.to_string()).caused_by(other),
    }
}
