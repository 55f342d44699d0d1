#![doc = include_str!("../README.md")]

mod agent;
mod ask;
mod builtin;
mod confinement;
mod error;
mod event;
mod figures;
mod follow;
mod hooks;
mod instructions;
mod interactive;
mod ledger;
mod mcp;
pub mod metrics;
mod model;
mod permissions;
mod process;
mod report;
mod revert;
mod run;
mod setup;
mod skills;
mod spend;
mod task;
pub mod tasks;
mod todo;
pub mod tools;
mod untrusted;

pub use agent::{
    Agent, AwaitingSession, BackgroundTasks, Bound, Compaction, PERMISSION_SETTING, Profile, SessionRule,
    TasksFuture, Tool, ToolCall, ToolError, ToolSet,
};
pub use ask::{Asker, PermissionAnswer, PermissionQuestion, Preview};
pub use builtin::DEFAULT_AGENT;
pub use error::{AgentError, AgentSetupError};
pub use event::{Event, EventSink, HookOutcome, McpChange};
pub use figures::{CallStatus, ReceiptFigures, ReductionKind, UsageFigures};
pub use follow::{Follower, Stored};
pub use hooks::{
    AfterTool, BeforeTool, CommandHook, CompactionContext, HookError, HookFuture, HookedCall, HookedResult,
    Hooks,
};
pub use ledger::FileLedger;
pub use model::Model;
pub use permissions::{IdleRule, UnknownTool, idle_rules, require_tool};
pub use plimsoll_sandbox::{
    Access, BadRule, Confinement, Guard, Sandbox, Subject, parse_allow, restrict_search_paths,
};
pub use report::{
    RevertAction, RevertReport, RevertedFile, RevertedTask, RunEnd, RunReport, StopReason, UncoveredCall,
};
pub use revert::{RevertError, RevertTarget, plan_revert, revert};
pub use run::{Conversation, title_from_words};
pub use setup::{RunOverrides, agent_description, agent_names};
pub use skills::{SkillEntry, SkillPlace, find_skills, skill_places};
pub use spend::RunLimits;
pub use task::{PROMPT_NOTE, is_answered_note};
pub use tasks::{TaskBoard, TaskLimits};
pub use todo::{TodoItem, TodoStatus};
pub use tools::newest_todos;
