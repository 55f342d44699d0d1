//! A small agent session with made-up turns and the real engine. Run it with `cargo run --example turn`.
//!
//! Every turn appends a prompt and some tool calls. Outputs are truncated as they arrive (layer 1), and the ladder is climbed
//! before each "model call". The bars show the window in relation to its line, and each receipt is printed. The summariser
//! fails on purpose at its second call.

// The engine must not print, but its example may.
#![allow(clippy::disallowed_methods)]

use std::error::Error;
use std::io::{self, Write};

use plimsoll::compact::{Breaker, CompactionContext, Ladder, Reply, Step, Summariser};
use plimsoll::fork::fork;
use plimsoll::truncate::{self, Address, Spill};
use plimsoll::{
    Ids, Limits, Log, Message, Millis, Part, Policy, Receipt, RequestOverhead, Tokens, ToolState, Window,
    request_tokens,
};
use serde_json::json;

fn main() -> Result<(), Box<dyn Error>> {
    match run(&mut io::stdout().lock()) {
        // The reader has closed the pipe.
        Err(error) if is_closed_pipe(error.as_ref()) => Ok(()),
        done => done,
    }
}

fn is_closed_pipe(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn run(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let policy = Policy::default();
    let limits = Limits::new(72_000, 8_000);
    let line = policy.overflow.line(limits).map(|line| line.at).unwrap_or_default();
    let mut seed = 0x2545_f491_4f6c_dd1du64;
    let mut ids = Ids::new(move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    });
    let mut log = Log::new();
    let mut breaker = Breaker::default();
    let mut asked = 0;
    writeln!(out, "A window of {} tokens; the line is at {line}.\n", limits.context)?;

    for turn in 0..24u64 {
        let now = Millis(1_794_775_451_033 + turn * 60_000);
        let prompt = format!("Look into module {turn}. You must not change its public names.");
        log.append(Message::user(ids.message(now), ids.part(now), prompt))?;

        let path = format!("src/module_{turn}.rs");
        let source = format!("pub fn step_{turn}() {{ todo_later(); }}\n").repeat(300 + turn as usize * 10);
        let build = format!("   Compiling module_{turn}\n").repeat(1_500 + turn as usize * 150)
            + "error[E0425]: cannot find function `todo_later` in this scope\n";
        let mut parts = vec![Part::text(ids.part(now), format!("I read `{path}` and build it."))];
        for (tool, input, output) in
            [("read", json!({ "path": path }), source), ("bash", json!({ "command": "cargo build" }), build)]
        {
            let plan = truncate::plan(output.as_bytes(), tool, &policy);
            // A real host would write the full output to disk here.
            let spill = if plan.wants_spill() {
                Spill::Saved(Address::Handle(format!("spill_{turn}_{tool}")))
            } else {
                Spill::Off
            };
            let shown = plan.render(&spill);
            if plan.truncated {
                writeln!(out, "          {}", Receipt::of_truncate(plan, &spill, &policy, &mut ids, now))?;
            }
            let call = format!("call_{turn}_{tool}");
            parts.push(Part::tool(ids.part(now), call, tool, ToolState::completed(input, shown)));
        }
        log.append(Message::assistant(ids.message(now), parts).at(now))?;

        let context = CompactionContext {
            summariser: Some(Summariser::own(limits)),
            breaker,
            ..CompactionContext::new(&policy, limits, now)
        };
        // The climb works on a copy: the log may grow while the model writes a summary.
        let mut ladder = Ladder::new(log.clone(), context);
        let outcome = loop {
            match ladder.climb(&mut ids)? {
                Step::Ask(request) => {
                    asked += 1;
                    writeln!(
                        out,
                        "          summary request: {} tokens, chunk {} of {}",
                        request.tokens, request.chunk, request.of
                    )?;
                    let fails = asked == 2 || asked == 3;
                    let reply =
                        if fails { Err("the model timed out".into()) } else { Ok(Reply::finished(SUMMARY)) };
                    ladder.answer(reply, &mut ids)?;
                }
                Step::Done(outcome) => break outcome,
            }
        };
        outcome.reduction.commit(&mut log)?;
        breaker = outcome.breaker;
        bar(out, turn, outcome.before, line)?;
        for rejection in &outcome.rejections {
            writeln!(out, "          {rejection}")?;
        }
        for receipt in &outcome.reduction.receipts {
            writeln!(out, "          {receipt}")?;
        }
    }

    let window = Window::of(&log, &policy);
    window.check()?;
    let load = request_tokens(&window, RequestOverhead::default(), &policy.count);
    writeln!(
        out,
        "\nThe log has {} messages, the window {}, {load} tokens.",
        log.len(),
        window.messages.len()
    )?;
    let digest = fork(&log, &policy.fork);
    writeln!(out, "A child session would get {} chars:\n\n{}", digest.stats.total_chars, digest.preamble)?;
    Ok(())
}

const SUMMARY: &str = "## Goal\nFind out why the modules do not build.\n\n## Constraints\nPublic names stay.\n\n\
    ## Next step\nDefine `todo_later`.";

fn bar(out: &mut impl Write, turn: u64, load: Tokens, line: Tokens) -> io::Result<()> {
    let width = (load.0 * 50 / line.0.max(1)) as usize;
    let bar: String = (0..width.max(51))
        .map(|at| {
            if at < width {
                '█'
            } else if at == 50 {
                '│'
            } else {
                ' '
            }
        })
        .collect();
    writeln!(out, "turn {turn:>2}  {bar} {load}")
}
