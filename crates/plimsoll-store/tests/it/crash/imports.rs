//! Imports in a child: a session with a sub-agent, staged in pieces, and then extended.

use plimsoll::{Message, MessageId, Part, PartId, SessionId, ToolState};
use plimsoll_store::{
    Archive, Conversation, GrownMessage, Import, Imported, NewSession, StagedPiece, Store, StoreError,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::child::Host;
use super::expected::{Expected, ExpectedMessage, ExpectedPart};
use super::journal::{Step, StepOutcome};

/// An import.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ImportStep {
    session: SessionId,
    messages: Vec<Message>,
    /// The previous state, and the current last message, if it extends a session.
    grown: Option<(String, Message)>,
    task: Option<(SessionId, Vec<Message>)>,
    /// Number of messages that are staged first, one by one.
    staged: usize,
}

impl ImportStep {
    fn source(&self) -> String {
        format!("torture:{}", self.session)
    }

    /// The state afterwards.
    fn state(&self) -> String {
        self.messages.last().map(|message| message.info.id.to_string()).unwrap_or_default()
    }

    fn store(self, store: &dyn Store) -> Result<StepOutcome, StoreError> {
        let stage = format!("stage_{}", self.session);
        for (place, message) in self.messages[..self.staged].iter().enumerate() {
            let (stage, messages) = (stage.clone(), vec![message.clone()]);
            store.stage(StagedPiece { stage, conversation: 0, after: place as u64, messages })?;
        }
        let conversation = |session: NewSession, key: &str, messages: &[Message]| Conversation {
            session,
            conversation: key.to_owned(),
            state: self.state(),
            before: None,
            staged: 0,
            grown: None,
            messages: messages.to_vec(),
            created: super::super::NOW,
            updated: super::super::NOW,
        };
        let mut main = conversation(NewSession::new(self.session.clone()), "", &self.messages[self.staged..]);
        main.staged = self.staged as u64;
        if let Some((before, message)) = &self.grown {
            main.before = Some(before.clone());
            let bare = Message { parts: Vec::new().into(), ..message.clone() };
            main.grown = Some(GrownMessage { message: bare, parts: vec![(0, message.parts[0].clone())] });
        }
        let mut conversations = vec![main];
        if let Some((id, messages)) = &self.task {
            let parent = Some(self.session.clone());
            conversations.push(conversation(
                NewSession { parent, ..NewSession::new(id.clone()) },
                "#1",
                messages,
            ));
        }
        let known = self.grown.is_some().then(|| self.session.clone()).into_iter().collect();
        let stage = (self.staged > 0).then_some(stage);
        let import = Import { source: self.source(), known: Some(known), stage, conversations };
        assert_eq!(store.import(import)?, Imported::Stored);
        Ok(StepOutcome::default())
    }
}

impl Host<'_> {
    /// Imports a session whose last call is open, and then the same with the answer and more.
    pub(super) fn import(&mut self) {
        let session = SessionId::new(self.name(&format!("ses{}", self.thread)));
        let task = SessionId::new(self.name("task"));
        let mut messages: Vec<Message> = (0..1 + self.dice.below(6)).map(|_| self.said()).collect();
        let (id, part) = (MessageId::new(self.name("msg")), PartId::new(self.name("prt")));
        let calling = |state: ToolState, finish: Option<&str>| {
            let call = Part::tool(part.clone(), "call_import", "read", state);
            let mut message = Message::assistant(id.clone(), vec![call]);
            message.info.finish = finish.map(str::to_owned);
            message
        };
        let input = json!({ "path": "src/lib.rs" });
        messages.push(calling(ToolState::pending(input.clone()), None));
        let staged = self.dice.below(messages.len() as u64 + 1) as usize;
        let task = Some((task, vec![self.said()]));
        let step = ImportStep { session: session.clone(), messages, grown: None, task, staged };
        let before = step.state();
        self.import_step(step);
        if self.dice.below(3) > 0 {
            let answered = calling(ToolState::completed(input, self.text(2_000)), Some("tool-calls"));
            let messages = vec![self.said()];
            let grown = Some((before, answered));
            self.import_step(ImportStep { session: session.clone(), messages, grown, task: None, staged: 0 });
        }
        self.lease(&session);
    }

    fn import_step(&mut self, step: ImportStep) {
        let act = step.clone();
        self.step(Step::Import(Box::new(step)), |archive| act.store(archive.store()));
    }

    fn said(&mut self) -> Message {
        let (id, part) = (MessageId::new(self.name("msg")), PartId::new(self.name("prt")));
        Message::user(id, part, self.text(2_000))
    }
}

impl Expected {
    pub(super) fn imported(&mut self, step: &ImportStep) {
        let main = self.sessions.entry(step.session.clone()).or_default();
        if let Some((_, message)) = &step.grown {
            let last = main.messages.iter_mut().find(|other| other.id == message.info.id).unwrap();
            last.finish = message.info.finish.clone();
            last.parts = message.parts.iter().map(ExpectedPart::of).collect();
        }
        main.messages.extend(step.messages.iter().map(ExpectedMessage::of));
        if let Some((id, messages)) = &step.task {
            let task = self.sessions.entry(id.clone()).or_default();
            task.messages.extend(messages.iter().map(ExpectedMessage::of));
            task.parent = Some(step.session.clone());
        }
    }
}

/// Whether an interrupted import has happened.
pub(super) fn has_happened(store: &dyn Store, step: &ImportStep) -> bool {
    let records = store.imports(&step.source()).unwrap();
    let has_happened = records.first().is_some_and(|record| record.state == step.state());
    assert!(has_happened || step.grown.is_some() || records.is_empty());
    has_happened
}

/// Sweeps the stages of interrupted imports, and checks that nothing else is removed.
pub(super) fn sweep(archive: &Archive, database: &rusqlite::Connection) {
    let count = |sql: &str| database.query_row(sql, [], |row| row.get::<_, u64>(0)).unwrap();
    let stages = count("SELECT count(DISTINCT stage) FROM staged");
    std::thread::sleep(std::time::Duration::from_millis(2));
    assert_eq!(archive.store().sweep_stages(std::time::Duration::ZERO).unwrap(), stages);
    assert_eq!(count("SELECT count(*) FROM staged"), 0);
    assert_eq!(count("SELECT count(*) FROM session WHERE id LIKE 'stage_%'"), 0);
    assert_eq!(archive.check().unwrap().problems, Vec::<String>::new());
}
