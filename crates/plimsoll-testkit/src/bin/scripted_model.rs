//! The scripted model server as a command.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use plimsoll_testkit::server::{Captured, ModelServer, Reply, SCRIPT_HELP, Script};

const HELP: &str = "\
A local scripted model: Anthropic Messages, OpenAI Chat Completions and OpenAI Responses on one port.

Usage: scripted-model [--port PORT] [--script FILE.json] [--window TOKENS] [--log FILE] [--lenient]

  --port PORT      Port to listen on (default 0: a free port)
  --script FILE    Replies; without a script, the user's newest text is repeated
  --window TOKENS  Answer larger requests with the provider's overflow error
  --log FILE       Append a line of JSON for each request
  --lenient        Answer illegal requests as well, instead of returning 400

The first line of output is the base URL. Problems of requests are written to standard error. Runs until it is stopped.
";

#[derive(Debug, Default)]
struct Options {
    port: u16,
    script: Option<PathBuf>,
    window: Option<u64>,
    log: Option<PathBuf>,
    is_lenient: bool,
    wants_help: bool,
}

fn main() -> ExitCode {
    match parse(std::env::args().skip(1)).and_then(run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            let _ = writeln!(io::stderr(), "error: {problem}");
            ExitCode::from(2)
        }
    }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options::default();
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("`{argument}` needs a value"));
        let number = |text: String| text.parse::<u64>().map_err(|_| format!("`{text}` is not a number"));
        match argument.as_str() {
            "--port" => {
                let port = number(value()?)?;
                options.port = u16::try_from(port).map_err(|_| format!("`{port}` is not a port"))?;
            }
            "--script" => options.script = Some(value()?.into()),
            "--window" => options.window = Some(number(value()?)?),
            "--log" => options.log = Some(value()?.into()),
            "--lenient" => options.is_lenient = true,
            "--help" | "-h" => options.wants_help = true,
            other => return Err(format!("unknown option `{other}`; see --help")),
        }
    }
    Ok(options)
}

fn run(options: Options) -> Result<(), String> {
    let mut out = io::stdout();
    if options.wants_help {
        let _ = writeln!(out, "{HELP}\n{SCRIPT_HELP}");
        return Ok(());
    }
    let mut builder = ModelServer::builder().port(options.port);
    builder = match &options.script {
        Some(path) => {
            let json =
                std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
            let script = Script::parse(&json).map_err(|error| format!("{}: {error}", path.display()))?;
            builder.answering(move |captured| script.answer(captured))
        }
        None => builder.answering(echo),
    };
    if let Some(window) = options.window {
        builder = builder.window(window);
    }
    if let Some(log) = options.log {
        builder = builder.log(log);
    }
    if options.is_lenient {
        builder = builder.lenient();
    }
    let server =
        builder.start().map_err(|error| format!("cannot listen on port {}: {error}", options.port))?;
    let _ = writeln!(out, "{}", server.url());
    let _ = out.flush();
    loop {
        std::thread::sleep(std::time::Duration::from_millis(200));
        for problem in server.take_problems() {
            let _ = writeln!(io::stderr(), "illegal: {problem}");
        }
    }
}

fn echo(captured: &Captured) -> Reply {
    let said = captured.last_user_text();
    Reply::new().text(if said.is_empty() { "(empty prompt)".to_owned() } else { said })
}
