//! # The agent's loop
//!
//! A model, its tools and a session: the loop asks the model, runs what it calls, and goes on until the model has nothing
//! more to call. What goes into a request, what is reduced and when, is decided by [`plimsoll_session`]; this crate adds
//! the model and the tools, and no context logic of its own.
//!
//! | to … | go to |
//! |---|---|
//! | set an agent up | [`Agent::configured`], or [`Agent`], [`Model`] and [`Profile`] by hand |
//! | run a session | [`Agent::open`], [`Conversation::run`] |
//! | let it do more than read | [`parse_allow`], [`Tool`] |
//! | put files back | [`Conversation::revert`], [`revert`], [`plan_revert`] |
//! | let it work in the background | [`TaskBoard`], [`Agent::with_tasks`], [`tasks`] |
//! | change what it does | [`Hooks`], [`CommandHook`] |
//! | follow what happens | [`Event`] as it happens, [`Follower`] for what is stored |
//! | count what happened | [`RunReport`], [`metrics`] |

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
mod ledger;
mod mcp;
pub mod metrics;
mod model;
mod permissions;
mod person;
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
    Agent, AwaitingSession, BackgroundTasks, Bound, Compaction, Profile, TasksFuture, Tool, ToolCall,
    ToolError, ToolSet,
};
pub use ask::{Asker, PermissionAnswer, PermissionQuestion, Preview};
pub use builtin::DEFAULT_AGENT;
pub use error::AgentError;
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
pub use plimsoll_sandbox::{Access, BadRule, Confinement, Guard, Sandbox, Subject, parse_allow};
pub use report::{
    RevertAction, RevertReport, RevertedFile, RevertedTask, RunEnd, RunReport, Stop, UncoveredCall,
};
pub use revert::{RevertError, RevertTarget, plan_revert, revert};
pub use run::{Conversation, title_from_words};
pub use setup::{AgentSetupError, RunOverrides, agent_description, agent_names};
pub use skills::{SkillEntry, SkillPlace, find_skills, skill_places};
pub use spend::RunLimits;
pub use tasks::{TaskBoard, TaskLimits};
pub use todo::{TodoItem, TodoStatus};
