//! A small agent on `plimsoll-session`: `agent BASE_URL MODEL [--session ID] PROMPT`
//!
//! The agent streams answers, runs a tool whose output is too long for any window, compacts its window when it is full, and
//! resumes a session that an earlier process has left. `docs/EMBEDDING.md` explains it piece by piece.

use std::error::Error;
use std::io::{self, Write};
use std::sync::Arc;

use plimsoll_providers::{
    BuildError, Client, ClientOptions, Endpoint, Prompt, ProviderError, Request, RequestOptions, Secret,
    ToolSpec, Wire,
};
use plimsoll_session::{
    AnswerEvent, Archive, CachePlan, Durability, FinishedAnswer, Limits, OutputSink, Policy, Prepared,
    RecallQuery, RecallTool, Reply, Session, SessionError, SessionId, SessionModel, Summariser, SummaryCall,
    ToolCall, Window,
};
use serde_json::json;

/// Maximum number of overflow errors in a row.
const MAX_OVERFLOWS: usize = 5;

/// A model with its system prompt and tools.
pub struct Agent {
    client: Client,
    model: String,
    limits: Limits,
    system: Vec<String>,
    tools: Vec<ToolSpec>,
}

impl Agent {
    /// An agent that asks this model.
    pub fn new(endpoint: Endpoint, model: &str, limits: Limits) -> Result<Agent, ProviderError> {
        let recall = RecallTool::new(&Policy::default().recall);
        let tools = vec![
            ToolSpec {
                name: "build".into(),
                description: "Builds the project and returns the compiler's output.".into(),
                schema: json!({ "type": "object", "properties": {} }),
            },
            ToolSpec {
                name: recall.name.into(),
                description: recall.description,
                schema: recall.input_schema,
            },
        ];
        let client = Client::new(endpoint, ClientOptions::default())?;
        let system = vec!["You build a project. Use your tools, and answer briefly.".into()];
        Ok(Agent { client, model: model.into(), limits, system, tools })
    }

    /// Opens a stored session, or creates one.
    pub async fn open(
        &self,
        archive: &Arc<Archive>,
        session: Option<SessionId>,
    ) -> Result<Session, SessionError> {
        let declared = |tool: &ToolSpec| format!("{}\n{}\n{}", tool.name, tool.description, tool.schema);
        let builder = Session::builder(Arc::clone(archive))
            .model(SessionModel::new(&self.model).limits(self.limits))
            .summariser(Summariser::own(self.limits))
            .system(self.system.join("\n\n"))
            .tools(self.tools.iter().map(declared));
        match session {
            Some(id) => builder.session(id).open().await,
            None => builder.open().await,
        }
    }

    /// Works on a prompt until the model calls no more tools. Returns its last answer.
    pub async fn run(&self, session: &mut Session, prompt: &str) -> Result<String, Box<dyn Error>> {
        session.settle("Interrupted: the turn was given up.").await?;
        session.prompt(prompt).await?;
        loop {
            let answer = self.step(session).await?;
            if answer.calls.is_empty() {
                session.end_turn().await?;
                return Ok(answer.message.text());
            }
            for call in &answer.calls {
                self.run_tool(call).await?;
            }
        }
    }

    /// Sends one request and stores its answer as it streams.
    async fn step(&self, session: &mut Session) -> Result<FinishedAnswer, Box<dyn Error>> {
        let mut overflows = 0;
        loop {
            let request = match session.prepare().await? {
                Prepared::Ready(request) => request,
                Prepared::Summarise(call) => {
                    let reply = self.summarise(&call).await.map_err(|error| error.to_string());
                    call.answer(reply).await?;
                    continue;
                }
                Prepared::CannotFit { breakdown, .. } => return Err(breakdown.to_string().into()),
                Prepared::NotSummarised { rejections, .. } => {
                    return Err(format!("no summary was accepted: {rejections:?}").into());
                }
            };
            let sent = self.build(&request.window, &self.system, &self.tools, Some(&request.cache))?;
            let mut stream = match self.client.stream(&sent, |_| {}).await {
                Ok(stream) => stream,
                Err(ProviderError::Overflow { window, .. }) if overflows < MAX_OVERFLOWS => {
                    overflows += 1;
                    request.on_overflow(window).await?;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let mut answer = request.begin_answer(None).await?;
            while let Some(event) = stream.next().await {
                match event {
                    Ok(event) => drop(answer.write(event).await?),
                    Err(error) => {
                        answer.abort(&error.to_string()).await?;
                        return Err(error.into());
                    }
                }
            }
            return Ok(answer.finish().await?);
        }
    }

    /// Builds a request for the provider.
    fn build(
        &self,
        window: &Window,
        system: &[String],
        tools: &[ToolSpec],
        cache: Option<&CachePlan>,
    ) -> Result<Request, BuildError> {
        let options = RequestOptions { max_tokens: Some(self.limits.output.0), ..RequestOptions::default() };
        let plain = Prompt::new("anthropic", &self.model, window, &options);
        Request::build(self.client.endpoint().wire, &Prompt { system, tools, cache, ..plain })
    }

    /// Answers one call.
    async fn run_tool(&self, call: &ToolCall) -> Result<(), Box<dyn Error>> {
        call.start().await?;
        match call.tool.as_str() {
            "build" => {
                let sink = call.output().await?;
                // Writing to a sink blocks while the disk is slower than the tool.
                let sink = tokio::task::spawn_blocking(move || run_build(sink)).await??;
                call.finish(sink).await?;
            }
            "recall" => match RecallQuery::parse(&call.input) {
                Ok(query) => {
                    let found = call.session().recall(query).await?;
                    call.finish_with(found.text).await?;
                }
                Err(error) => call.fail(error.to_string()).await?,
            },
            unknown => call.refuse(format!("unknown tool `{unknown}`")).await?,
        }
        Ok(())
    }

    /// Asks the session's own model for a summary.
    async fn summarise(&self, call: &SummaryCall<'_>) -> Result<Reply, Box<dyn Error>> {
        let (window, cache) = (call.window(), call.cache_plan().await?);
        let sent = match call.system() {
            Some(system) => self.build(&window, &[system.to_owned()], &[], None)?,
            None => self.build(&window, &self.system, &self.tools, cache.as_ref())?,
        };
        let mut stream = self.client.stream(&sent, |_| {}).await?;
        let mut reply = Reply::default();
        while let Some(event) = stream.next().await {
            match event? {
                AnswerEvent::Text(text) => reply.text.push_str(&text),
                AnswerEvent::CallBegin { tool, .. } => reply.tool_calls.push(tool),
                AnswerEvent::Finished { reason, usage } => {
                    (reply.finish, reply.usage) = (Some(reason), usage);
                }
                _ => {}
            }
        }
        Ok(reply)
    }
}

/// A build that prints more than any window holds.
fn run_build(mut sink: OutputSink) -> io::Result<OutputSink> {
    for step in 1..=20_000 {
        match step {
            12_345 => writeln!(sink, "error: step {step} failed: `depth` is not a number")?,
            _ => writeln!(sink, "step {step}: compiled one of the twenty thousand files of this project")?,
        }
    }
    Ok(sink)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let session = words.iter().position(|word| word == "--session");
    let session = session.map(|at| SessionId::new(words.drain(at..at + 2).nth(1).unwrap_or_default()));
    let [url, model, prompt] = &words[..] else { return Err("BASE_URL MODEL [--session ID] PROMPT".into()) };
    let archive = Archive::open("agent.db", &Policy::default(), Durability::Process)?;
    let key = std::env::var("ANTHROPIC_API_KEY").ok().map(Secret::new);
    let agent = Agent::new(Endpoint::new(Wire::Anthropic, url, key)?, model, Limits::new(200_000, 8_000))?;
    let mut session = agent.open(&Arc::new(archive), session).await?;
    let text = agent.run(&mut session, prompt).await?;
    writeln!(io::stdout(), "{text}\n\n--session {}", session.id())?;
    session.close().await?;
    Ok(())
}
