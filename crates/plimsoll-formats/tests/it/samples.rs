//! A small session of each tool, written by hand, in each of the layouts its versions have.

use plimsoll_formats::Format;

/// All of them.
pub(crate) const ALL: [(Format, &str); 14] = [
    (Format::GeminiCli, GEMINI),
    (Format::GeminiCli, GEMINI_DOCUMENT),
    (Format::Goose, GOOSE),
    (Format::Goose, GOOSE_EXPORT),
    (Format::Cline, CLINE),
    (Format::Cline, ROO),
    (Format::Openhands, OPENHANDS),
    (Format::Openhands, OPENHANDS_RUNS),
    (Format::Openhands, OPENHANDS_KINDS),
    (Format::Kimi, KIMI),
    (Format::ManagedAgents, MANAGED_AGENTS),
    (Format::Trae, TRAE),
    (Format::Trae, TRAE_STEPS),
    (Format::Aider, AIDER),
];

/// Lines; a message is written again with more in it, and a rewind takes one back.
pub(crate) const GEMINI: &str = r#"{"sessionId":"g1","projectHash":"h","startTime":"2026-01-01T00:00:00Z","lastUpdated":"2026-01-01T00:00:00Z","kind":"main"}
{"id":"u1","timestamp":"2026-01-01T00:00:01Z","type":"user","content":[{"text":"é\n\"hi\""},{"inlineData":{"mimeType":"image/png","data":"AAAA"}}]}
{"id":"a1","timestamp":"2026-01-01T00:00:02Z","type":"gemini","content":"Looking","thoughts":[{"subject":"Plan","description":"List first","timestamp":"2026-01-01T00:00:02Z"}],"tokens":null,"model":"gemini-x"}
{"id":"a1","timestamp":"2026-01-01T00:00:02Z","type":"gemini","content":"Looking","thoughts":[{"subject":"Plan","description":"List first","timestamp":"2026-01-01T00:00:02Z"}],"tokens":{"input":90,"output":7,"cached":40,"thoughts":3,"tool":0,"total":100},"model":"gemini-x","toolCalls":[{"id":"c","name":"ls","args":{"a":1},"result":[{"functionResponse":{"id":"c","name":"ls","response":{"output":"x"}}}],"status":"success","timestamp":"2026-01-01T00:00:03Z"},{"id":"d","name":"rm","args":{},"result":[{"functionResponse":{"id":"d","name":"rm","response":{"error":"denied"}}}],"status":"error","timestamp":"2026-01-01T00:00:04Z"}]}
{"$set":{"lastUpdated":"2026-01-01T00:00:04Z"}}
{"id":"i1","timestamp":"2026-01-01T00:00:05Z","type":"info","content":"Update available"}
{"id":"u2","timestamp":"2026-01-01T00:00:06Z","type":"user","content":"wrong way"}
{"id":"a2","timestamp":"2026-01-01T00:00:07Z","type":"gemini","content":"No","tokens":{"input":5,"output":1,"cached":0,"total":6},"model":"gemini-x"}
{"$rewindTo":"u2"}
{"id":"u3","timestamp":"2026-01-01T00:00:08Z","type":"user","content":"better"}
{"$set":{"summary":"Files"}}
"#;

/// What older versions wrote.
pub(crate) const GEMINI_DOCUMENT: &str = r#"{"sessionId":"g2","projectHash":"h","startTime":"2026-01-01T00:00:00Z","lastUpdated":"2026-01-01T00:00:09Z","messages":[{"id":"u1","timestamp":"2026-01-01T00:00:01Z","type":"user","content":"é\n\"hi\""},{"id":"a1","timestamp":"2026-01-01T00:00:02Z","type":"gemini","content":"","toolCalls":[{"id":"c","name":"ls","args":{"a":1},"result":[{"functionResponse":{"id":"c","name":"ls","response":{"output":"x"}}}],"status":"success","timestamp":"2026-01-01T00:00:03Z"}],"model":"gemini-x"}]}"#;

/// A line about the session, and one for each message; a compaction hides what came before its summary.
pub(crate) const GOOSE: &str = r#"{"id":"20260101_1","working_dir":"/w","description":"Files","message_count":6,"total_tokens":12,"created_at":"2026-01-01T00:00:00Z","updated_at":"2026-01-01T00:01:00Z"}
{"id":"m1","role":"user","created":1767225600,"content":[{"type":"text","text":"é\n\"hi\""}],"metadata":{"userVisible":true,"agentVisible":false}}
{"id":"m2","role":"assistant","created":1767225601,"content":[{"type":"thinking","thinking":"hm","signature":"S"},{"type":"toolRequest","id":"c","toolCall":{"status":"success","value":{"name":"ls","arguments":{"a":1}}}}],"metadata":{"userVisible":true,"agentVisible":false}}
{"id":"m3","role":"user","created":1767225602,"content":[{"type":"toolResponse","id":"c","toolResult":{"status":"success","value":{"content":[{"type":"text","text":"x"}],"isError":false}}}],"metadata":{"userVisible":true,"agentVisible":false}}
{"id":"m4","role":"user","created":1767225603,"content":[{"type":"text","text":"sum"}],"metadata":{"userVisible":false,"agentVisible":true}}
{"id":"m5","role":"user","created":1767225604,"content":[{"type":"text","text":"go on"},{"type":"image","data":"AAAA","mimeType":"image/png"}],"metadata":{"userVisible":true,"agentVisible":true}}
{"id":"m6","role":"assistant","created":1767225605,"content":[{"type":"toolRequest","id":"d","toolCall":{"status":"error","error":"no such tool"}},{"type":"systemNotification","notificationType":"inlineMessage","msg":"m"}]}
"#;

/// What `goose session export` writes.
pub(crate) const GOOSE_EXPORT: &str = r#"{"id":"20260101_2","working_dir":"/w","name":"Files","created_at":"2026-01-01T00:00:00Z","updated_at":"2026-01-01T00:01:00Z","extension_data":{},"message_count":2,"model_config":{"model_name":"gpt-x","context_limit":128000},"conversation":[{"id":"m1","role":"user","created":1767225600,"content":[{"type":"text","text":"é\n\"hi\""}],"metadata":{"userVisible":true,"agentVisible":true}},{"id":"m2","role":"assistant","created":1767225601,"content":[{"type":"text","text":"x"}],"metadata":{"userVisible":true,"agentVisible":true}}]}"#;

/// A session of the newer kind, with a file that was mentioned.
pub(crate) const CLINE: &str = r#"{"version":1,"updated_at":"2026-01-01T00:01:00Z","agent":"lead","sessionId":"s1","messages":[{"id":"u1","role":"user","content":[{"type":"text","text":"é\n\"hi\""},{"type":"file","path":"/w/a.rs","content":"fn a() {}"}],"ts":1767225600000},{"id":"a1","role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"S"},{"type":"tool_use","id":"c","name":"ls","input":{"a":1}}],"ts":1767225601000,"modelInfo":{"id":"claude-x","provider":"cline"},"metrics":{"inputTokens":100,"outputTokens":7,"cacheReadTokens":60,"cacheWriteTokens":10,"cost":0.5}},{"id":"u2","role":"user","content":[{"type":"tool_result","tool_use_id":"c","name":"ls","content":[{"type":"text","text":"x"},{"type":"file","path":"/w/b.rs","content":"fn b() {}"}],"is_error":false}],"ts":1767225602000}],"system_prompt":"Be brief"}"#;

/// `api_conversation_history.json`, with a summary of Roo's.
pub(crate) const ROO: &str = r#"[{"role":"user","content":[{"type":"text","text":"é\n\"hi\""}],"ts":1767225600000,"condenseParent":"k"},{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"ls","input":{"a":1}}],"ts":1767225601000,"condenseParent":"k","modelInfo":{"modelId":"claude-x","providerId":"p","mode":"act"},"metrics":{"tokens":{"prompt":50,"completion":5,"cached":20},"cost":0.25}},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"x"}],"ts":1767225602000},{"role":"user","content":[{"type":"text","text":"sum"}],"ts":1767225603000,"isSummary":true,"condenseId":"k"},{"role":"assistant","content":"On it","ts":1767225604000}]"#;

/// Events of versions before 1, a line each: two calls of one response, a condensation, and the end.
pub(crate) const OPENHANDS: &str = r#"{"id":0,"timestamp":"2026-01-01T00:00:00.000000","source":"agent","action":"system","args":{"content":"Be brief","openhands_version":"0.50"}}
{"id":1,"timestamp":"2026-01-01T00:00:01.000000","source":"user","action":"message","args":{"content":"é\n\"hi\"","image_urls":["data:image/png;base64,AAAA"]}}
{"id":2,"timestamp":"2026-01-01T00:00:02.000000","source":"environment","observation":"recall","content":"Added","extras":{"repo_instructions":"Use tabs","microagent_knowledge":[{"name":"git","content":"Commit often"}]}}
{"id":3,"timestamp":"2026-01-01T00:00:03.000000","source":"agent","action":"run","args":{"command":"ls","thought":"First look"},"tool_call_metadata":{"function_name":"execute_bash","tool_call_id":"c","model_response":{"id":"r1","model":"m","choices":[{"message":{"tool_calls":[{"id":"c","function":{"name":"execute_bash","arguments":"{\"command\": \"ls\"}"}}]}}],"usage":{"prompt_tokens":50,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":20}}}}}
{"id":4,"timestamp":"2026-01-01T00:00:04.000000","source":"agent","action":"read","args":{"path":"a.rs","thought":""},"tool_call_metadata":{"function_name":"editor","tool_call_id":"d","model_response":{"id":"r1","model":"m"}}}
{"id":5,"timestamp":"2026-01-01T00:00:05.000000","source":"agent","observation":"run","cause":3,"content":"x","extras":{"metadata":{"prefix":"","suffix":"\n[exit code 0]"}},"tool_call_metadata":{"function_name":"execute_bash","tool_call_id":"c"}}
{"id":6,"timestamp":"2026-01-01T00:00:06.000000","source":"agent","observation":"error","cause":4,"content":"no such file","extras":{},"tool_call_metadata":{"function_name":"editor","tool_call_id":"d"}}
{"id":7,"timestamp":"2026-01-01T00:00:07.000000","source":"environment","observation":"agent_state_changed","content":"","extras":{"agent_state":"running"}}
{"id":8,"timestamp":"2026-01-01T00:00:08.000000","source":"agent","action":"condensation","args":{"forgotten_events_start_id":1,"forgotten_events_end_id":2,"summary":"sum"}}
{"id":9,"timestamp":"2026-01-01T00:00:09.000000","source":"agent","action":"finish","args":{"final_thought":"Done","thought":""}}
"#;

/// The output of an evaluation: a run on each line.
pub(crate) const OPENHANDS_RUNS: &str = r#"{"instance_id":"one","metadata":{"llm_config":{"model":"m"}},"history":[{"id":0,"timestamp":"2026-01-01T00:00:00","source":"user","action":"message","args":{"content":"first"}},{"id":1,"timestamp":"2026-01-01T00:00:01","source":"agent","action":"message","args":{"content":"ok"}}]}
{"instance_id":"two","metadata":{"llm_config":{"model":"m"}},"history":[{"id":0,"timestamp":"2026-01-02T00:00:00","source":"user","action":"message","args":{"content":"é\n\"hi\""}},{"id":1,"timestamp":"2026-01-02T00:00:01","source":"agent","action":"run","args":{"command":"ls","thought":"t"}},{"id":2,"timestamp":"2026-01-02T00:00:02","source":"agent","observation":"run","cause":1,"content":"x"}]}
"#;

/// Events since version 1, as a list.
pub(crate) const OPENHANDS_KINDS: &str = r#"[{"kind":"SystemPromptEvent","id":"e0","timestamp":"2026-01-01T00:00:00","source":"agent","system_prompt":{"type":"text","text":"Be brief"}},{"kind":"MessageEvent","id":"e1","timestamp":"2026-01-01T00:00:01","source":"user","llm_message":{"role":"user","content":[{"type":"text","text":"é\n\"hi\""},{"type":"image","image_urls":["data:image/png;base64,AAAA"]}]},"extended_content":[{"type":"text","text":"Use tabs"}]},{"kind":"ActionEvent","id":"e2","timestamp":"2026-01-01T00:00:02","source":"agent","thought":[{"type":"text","text":"First look"}],"reasoning_content":"hm","tool_name":"terminal","tool_call_id":"c","tool_call":{"id":"c","name":"terminal","arguments":"{\"command\": \"ls\"}"},"llm_response_id":"r1"},{"kind":"ActionEvent","id":"e3","timestamp":"2026-01-01T00:00:02","source":"agent","thought":[],"tool_name":"editor","tool_call_id":"d","tool_call":{"id":"d","name":"editor","arguments":"{}"},"llm_response_id":"r1"},{"kind":"ObservationEvent","id":"e4","timestamp":"2026-01-01T00:00:03","source":"environment","tool_name":"terminal","tool_call_id":"c","observation":{"kind":"TerminalObservation","content":[{"type":"text","text":"x"}],"is_error":false},"action_id":"e2"},{"kind":"AgentErrorEvent","id":"e5","timestamp":"2026-01-01T00:00:04","source":"agent","tool_name":"editor","tool_call_id":"d","error":"bad call"},{"kind":"Condensation","id":"e6","timestamp":"2026-01-01T00:00:05","source":"environment","forgotten_event_ids":["e1"],"summary":"sum","llm_response_id":"r2"},{"kind":"MessageEvent","id":"e7","timestamp":"2026-01-01T00:00:06","source":"agent","llm_message":{"role":"assistant","content":[{"type":"text","text":"Done"}]},"llm_response_id":"r3"},{"kind":"PauseEvent","id":"e8","timestamp":"2026-01-01T00:00:07","source":"user"}]"#;

/// The three layouts, which never stand in one file, but every record says what it is: the wire log of Kimi CLI, the
/// wire log of Kimi Code, and the context of Kimi CLI.
pub(crate) const KIMI: &str = r#"{"type":"metadata","protocol_version":"1.4"}
{"timestamp":1767225600.5,"message":{"type":"TurnBegin","payload":{"user_input":[{"type":"text","text":"é\n\"hi\""}]}}}
{"timestamp":1767225601.5,"message":{"type":"StepBegin","payload":{"n":1}}}
{"timestamp":1767225602.5,"message":{"type":"ContentPart","payload":{"type":"think","think":"hm","encrypted":null}}}
{"timestamp":1767225603.5,"message":{"type":"ToolCall","payload":{"type":"function","id":"c","function":{"name":"ls","arguments":"{\"a\":1}"}}}}
{"timestamp":1767225604.5,"message":{"type":"ToolCall","payload":{"type":"function","id":"d","function":{"name":"cat","arguments":"{\"b\":\"two"}}}}
{"timestamp":1767225605.5,"message":{"type":"ToolResult","payload":{"tool_call_id":"c","return_value":{"is_error":false,"output":"x","message":"1 file"}}}}
{"timestamp":1767225606.5,"message":{"type":"ToolCallPart","payload":{"arguments_part":"\"}"}}}
{"timestamp":1767225607.5,"message":{"type":"StatusUpdate","payload":{"max_context_tokens":262144,"token_usage":{"input_other":10,"output":5,"input_cache_read":20,"input_cache_creation":3}}}}
{"timestamp":1767225608.5,"message":{"type":"ToolResult","payload":{"tool_call_id":"d","return_value":{"is_error":true,"output":"","message":"no such file"}}}}
{"timestamp":1767225609.5,"message":{"type":"SubagentEvent","payload":{"agent_id":"A","event":{"type":"TurnBegin","payload":{"user_input":"side"}}}}}
{"timestamp":1767225610.5,"message":{"type":"CompactionBegin","payload":{}}}
{"timestamp":1767225611.5,"message":{"type":"TurnEnd","payload":{}}}
{"type":"config.update","modelAlias":"kimi-x","systemPrompt":"Be brief","time":1767225620000}
{"type":"context.append_message","message":{"role":"user","content":[{"type":"text","text":"again"}],"toolCalls":[],"origin":{"kind":"user"}},"time":1767225621000}
{"type":"context.append_loop_event","event":{"type":"step.begin","uuid":"s1"},"time":1767225622000}
{"type":"context.append_loop_event","event":{"type":"content.part","stepUuid":"s1","part":{"type":"text","text":"On it"}},"time":1767225623000}
{"type":"context.append_loop_event","event":{"type":"tool.call","stepUuid":"s1","toolCallId":"e","name":"ls","args":{"a":2}},"time":1767225624000}
{"type":"context.append_loop_event","event":{"type":"step.end","uuid":"s1","usage":{"inputOther":4,"output":2,"inputCacheRead":1,"inputCacheCreation":0}},"time":1767225625000}
{"type":"context.append_loop_event","event":{"type":"tool.result","toolCallId":"e","result":{"output":"y","isError":false}},"time":1767225626000}
{"type":"context.apply_compaction","summary":"sum","compactedCount":3,"time":1767225627000}
{"role":"_system_prompt","content":"Be kind"}
{"role":"_checkpoint","id":0}
{"role":"user","content":"third"}
{"role":"assistant","content":[{"type":"think","think":"hm"},{"type":"text","text":"Yes"}],"tool_calls":[{"type":"function","id":"f","function":{"name":"ls","arguments":"{}"}}]}
{"role":"_usage","token_count":12}
{"role":"tool","content":"z","tool_call_id":"f"}
"#;

/// Events as the API writes them, and within the records of a tool that collects them.
pub(crate) const MANAGED_AGENTS: &str = r#"{"id":"sevt_1","type":"session.status_running","processed_at":"2026-01-01T00:00:00Z"}
{"id":"sevt_2","type":"user.message","content":[{"type":"text","text":"é\n\"hi\""}],"processed_at":"2026-01-01T00:00:01Z"}
{"id":"sevt_3","type":"span.model_request_start","processed_at":"2026-01-01T00:00:02Z"}
{"id":"sevt_4","type":"agent.thinking","processed_at":"2026-01-01T00:00:03Z"}
{"role":"agent","kind":"message","content":"Looking","time":"2026-01-01T00:00:04Z","raw":{"id":"sevt_5","type":"agent.message","content":[{"type":"text","text":"Looking"}],"processed_at":"2026-01-01T00:00:04Z"}}
{"role":"agent","kind":"tool_use","tool":"ls","time":"2026-01-01T00:00:05Z","raw":{"id":"sevt_6","type":"agent.tool_use","name":"ls","input":{"a":1},"processed_at":"2026-01-01T00:00:05Z"}}
{"id":"sevt_7","type":"span.model_request_end","model_request_start_id":"sevt_3","is_error":false,"model_usage":{"input_tokens":2,"output_tokens":5,"cache_read_input_tokens":20,"cache_creation_input_tokens":3},"processed_at":"2026-01-01T00:00:06Z"}
{"id":"sevt_8","type":"agent.tool_result","tool_use_id":"sevt_6","content":[{"type":"text","text":"x"}],"is_error":false,"processed_at":"2026-01-01T00:00:07Z"}
{"role":"user","kind":"interrupt","time":"0001-01-01T00:00:00Z","raw":{"id":"sevt_9","type":"user.interrupt"}}
{"id":"sevt_10","type":"user.define_outcome","description":"Make it green","rubric":{"type":"text","content":"Tests pass"},"processed_at":"2026-01-01T00:00:08Z"}
"#;

/// A trajectory of ByteDance's agent.
pub(crate) const TRAE: &str = r#"{"task":"List the files","start_time":"2026-01-01T00:00:00.000000","end_time":"2026-01-01T00:00:09.000000","provider":"anthropic","model":"claude-x","max_steps":9,"llm_interactions":[{"timestamp":"2026-01-01T00:00:01.000000","provider":"anthropic","model":"claude-x","input_messages":[{"role":"system","content":"Be brief"},{"role":"user","content":"é\n\"hi\""}],"response":{"content":"Looking","model":"claude-x","finish_reason":"tool_use","usage":{"input_tokens":10,"output_tokens":5,"cache_creation_input_tokens":3,"cache_read_input_tokens":20,"reasoning_tokens":2},"tool_calls":[{"call_id":"c","name":"bash","arguments":{"a":1},"id":null}]}},{"timestamp":"2026-01-01T00:00:03.000000","provider":"anthropic","model":"claude-x","input_messages":[{"role":"user","content":null,"tool_result":{"call_id":"c","success":true,"result":"x","error":null,"id":null}}],"response":{"content":"","model":"claude-x","finish_reason":"tool_use","usage":null,"tool_calls":[{"call_id":"d","name":"task_done","arguments":{},"id":null}]}}],"agent_steps":[{"step_number":1,"timestamp":"2026-01-01T00:00:02.000000","state":"completed","tool_results":[{"call_id":"c","success":true,"result":"x","error":null}]},{"step_number":2,"timestamp":"2026-01-01T00:00:04.000000","state":"completed","tool_results":[{"call_id":"d","success":false,"result":"","error":"not yet"}]}],"success":true,"final_result":"done"}"#;

/// Steps with all messages of their requests; the third begins another session.
pub(crate) const TRAE_STEPS: &str = r#"{"agent_id":"demo","task":"Second task","start_time":"2026-01-01T00:00:00Z","end_time":"2026-01-01T00:01:00Z","completed":true,"steps":[{"step_id":"one","task":"First task","messages":[{"role":"system","content":"Be brief"},{"role":"user","content":"first"}],"tool_calls":[{"id":"c","type":"function","function":{"name":"ls","arguments":"{}"}}],"tool_results":[{"success":true,"result":{"files":1},"tool_call_id":"c"}],"timestamp":1767225600000,"llm_response_content":"Looking"},{"step_id":"two","task":"First task","messages":[{"role":"system","content":"Be brief"},{"role":"user","content":"first"},{"role":"assistant","content":"Looking","tool_calls":[{"id":"c","type":"function","function":{"name":"ls","arguments":"{}"}}]},{"role":"tool","content":"{}","tool_call_id":"c"}],"tool_calls":[],"tool_results":[],"timestamp":1767225601000,"llm_response_content":"One file"},{"step_id":"three","task":"Second task","messages":[{"role":"system","content":"Be brief"},{"role":"user","content":"é\n\"hi\""}],"tool_calls":[{"id":"d","type":"function","function":{"name":"ls","arguments":"{\"a\":1}"}}],"tool_results":[{"success":true,"result":"x","tool_call_id":"d"}],"timestamp":1767225602000,"llm_response_content":""}]}"#;

/// Two chats and one in which nothing was said.
pub(crate) const AIDER: &str = r#"
# aider chat started at 2026-01-01 10:00:00

> Aider v0.86.1
> Main model: claude-x with diff edit format

#### first

One.

> Tokens: 1.2k sent, 20 received. Cost: $0.01 message, $0.01 session.

# aider chat started at 2026-01-02 11:30:05

> Aider v0.86.1
> Model: claude-x with diff edit format

#### /add a.rs

> Added a.rs to the chat

#### é
#### "hi"

Here is the change:

a.rs

```rust
<<<<<<< SEARCH
> quoted
=======
fn a() {}
>>>>>>> REPLACE
```

> Tokens: 10,332 sent, 2,000 cache write, 300 cache hit, 439 received. Cost: $0.04 message, $0.05 session.
> The LLM did not conform to the edit format.
> Only 1 reflections allowed, stopping.

Sorry, again.

> Tokens: 10,400 sent, 40 received.
> Applied edit to a.rs

# aider chat started at 2026-01-03 08:00:00

> Aider v0.86.1

"#;
