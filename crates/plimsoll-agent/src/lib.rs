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
mod calls;
mod compaction;
mod confinement;
mod error;
mod event;
mod follow;
mod guard;
mod hooks;
mod instructions;
mod ledger;
mod mcp;
pub mod metrics;
mod model;
mod permissions;
mod person;
mod process;
mod revert;
mod run;
mod setup;
mod skills;
mod step;
pub mod tasks;
mod title;
pub mod tools;
mod untrusted;

pub use agent::{Agent, Bound, Compaction, Profile, RunLimits};
pub use ask::{Asker, PermissionAnswer, PermissionQuestion, Preview};
pub use builtin::DEFAULT_AGENT;
pub use error::AgentError;
pub use event::{
    CallStatus, Event, EventSink, HookOutcome, McpChange, ReceiptFigures, ReductionKind, UsageFigures,
};
pub use follow::{Follower, Stored};
pub use hooks::{
    AfterTool, BeforeTool, CommandHook, CompactionContext, HookError, HookFuture, HookedCall, HookedResult,
    Hooks,
};
pub use ledger::FileLedger;
pub use model::Model;
pub use permissions::{IdleRule, UnknownTool, idle_rules, require_tool};
pub use person::NextReductions;
pub use plimsoll_sandbox::{Access, BadRule, Confinement, Guard, Sandbox, Subject, parse_allow};
pub use revert::{
    RevertAction, RevertError, RevertReport, RevertTarget, RevertedFile, RevertedTask, UncoveredCall,
    plan_revert, revert,
};
pub use run::{Conversation, RunEnd, RunReport, Stop};
pub use setup::{AgentSetupError, RunOverrides, agent_description, agent_names};
pub use skills::{SkillEntry, SkillPlace, find_skills, skill_places};
pub use tasks::{TaskBoard, TaskLimits};
pub use title::title_from_words;
pub use tools::{TodoItem, TodoStatus, Tool, ToolCall, ToolError, ToolSet};
