"""Checks Plimsoll's requests and the scripted model's answers with the official SDKs.

Three checks, each with a count and every objection:

1. requests: each request that `examples/requests.rs` builds is validated against the SDK's own typed parameters, and
   nothing in it may be unknown to them.
2. passage: the same requests go through the real SDK clients to the scripted model, and arrive unchanged.
3. answers: what the scripted model answers, streamed and not, is validated event by event against the SDK's models,
   and the SDK's own helpers put together what the script said. Errors become the exceptions that the SDKs promise.

    referee.py REQUESTS.jsonl PATH/TO/scripted-model
"""

import json
import re
import subprocess
import sys
import tempfile
import urllib.request
from collections import Counter
from pathlib import Path

import anthropic
import openai
from anthropic.types import Message, MessageCreateParams, RawMessageStreamEvent
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.chat.completion_create_params import CompletionCreateParams
from openai.types.responses import Response, ResponseStreamEvent
from openai.types.responses.response_create_params import ResponseCreateParams
from pydantic import TypeAdapter, ValidationError

PARAMS = {"anthropic": MessageCreateParams, "chat": CompletionCreateParams, "responses": ResponseCreateParams}
PATHS = {"anthropic": "/v1/messages", "chat": "/v1/chat/completions", "responses": "/v1/responses"}
EVENTS = {"anthropic": RawMessageStreamEvent, "chat": ChatCompletionChunk, "responses": ResponseStreamEvent}
WHOLE = {"anthropic": Message, "chat": ChatCompletion, "responses": Response}

FOREIGN = ("Invalid `signature`", "Invalid `data`", "could not be verified")

# Blocks invented by generated histories: provider-specific blocks are replayed, whether or not they are known.
INVENTED = "of_tomorrow"
# Removed from Anthropic's SDK because newer models reject it. It is only sent to older models, which accept it.
OLD_FIELDS = ("temperature",)

objections = []


def object_to(where, what):
    objections.append(f"{where}: {what}")


def plain(value):
    """Validated values with their lazy parts read: pydantic validates an `Iterable` only when it is iterated."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, (str, bytes, int, float, bool)) or value is None:
        return value
    return [plain(inner) for inner in value]


def differences(sent, read, path=""):
    """Differences between a request and the SDK's parsed form, which drops unknown fields."""
    if isinstance(sent, dict) and isinstance(read, dict):
        for key in sent.keys() | read.keys():
            if key not in read:
                yield f"{path}.{key} is not known to the SDK"
            elif key not in sent:
                yield f"{path}.{key} is added by the SDK"
            else:
                yield from differences(sent[key], read[key], f"{path}.{key}")
    elif isinstance(sent, list) and isinstance(read, list) and len(sent) == len(read):
        for at, (one, other) in enumerate(zip(sent, read)):
            yield from differences(one, other, f"{path}[{at}]")
    elif sent != read or type(sent) is not type(read):
        yield f"{path} is read as {read!r:.80}"


def known_part(request):
    """A request without content that its SDK cannot know."""
    body = dict(request["body"])
    if request["wire"] != "anthropic":
        return body
    messages = []
    for message in body.get("messages", []):
        content = [block for block in message.get("content", []) if block["type"] != INVENTED]
        if content or not message.get("content"):
            messages.append(message | ({"content": content} if content else {}))
    known = {key: value for key, value in body.items() if key not in OLD_FIELDS}
    return known | ({"messages": messages} if "messages" in body else {})


def check_requests(requests):
    adapters = {wire: TypeAdapter(kind) for wire, kind in PARAMS.items()}
    counts = Counter()
    for request in requests:
        where = f"{request['wire']} {request['name']}"
        counts[request["wire"]] += 1
        body = known_part(request)
        try:
            read = plain(adapters[request["wire"]].validate_python(body))
        except ValidationError as error:
            problems = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
            object_to(where, "; ".join(problems[:4]))
            continue
        for difference in differences(body, read):
            object_to(where, difference)
    return counts


def check_referee(requests):
    """Checks the referee itself: it must object to requests that were broken on purpose."""
    def breaks(body):
        key = "input" if "input" in body else "messages"
        first, *rest = body[key]
        yield body | {"session": "s"}
        yield body | {key: [{"role": first["role"], "type": "message"}, *rest]}
        yield body | {key: [first | {"role": "robot"}, *rest]}
        yield {name: value for name, value in body.items() if name != key}
        yield body | {"tools": [{"name": 7}]}

    broken = []
    for wire in PARAMS:
        # The Responses API accepts a request without input, because it may continue an earlier one.
        body = next(request["body"] for request in requests if request["wire"] == wire)
        broken += [{"wire": wire, "name": f"broken {at}", "body": each} for at, each in enumerate(breaks(body))
                   if not (wire == "responses" and at == 3)]
    before = len(objections)
    for request in broken:
        already = len(objections)
        check_requests([request])
        if len(objections) == already:
            sys.exit(f"the referee does not object to {request['wire']} {request['name']}")
    del objections[before:]
    return len(broken)


class Model:
    """The scripted model as a process."""

    def __init__(self, binary, folder, script=None, *options):
        arguments = [binary, *options]
        if script is not None:
            path = Path(folder) / "script.json"
            path.write_text(json.dumps(script))
            arguments += ["--script", str(path)]
        self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        _, illegal = self.process.communicate()
        for line in illegal.splitlines():
            object_to("scripted model", line)

    def anthropic(self):
        return anthropic.Anthropic(base_url=self.url, api_key="test", max_retries=0)

    def openai(self):
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key="test", max_retries=0)


def check_passage(requests, binary, folder):
    """Sends the requests with the real clients. Their thoughts were signed by others, so the model is lenient."""
    log = Path(folder) / "log.jsonl"
    script = [{"parts": [{"text": "fine"}], "repeat": True}]
    counts = Counter()
    with Model(binary, folder, script, "--lenient", "--log", str(log)) as model:
        lines = log.open()
        ours, theirs = model.anthropic(), model.openai()
        create = {
            "anthropic": ours.messages.create,
            "chat": theirs.chat.completions.create,
            "responses": theirs.responses.create,
        }
        for request in requests:
            where = f"{request['wire']} {request['name']} through the client"
            counts[request["wire"]] += 1
            try:
                known, old = dict(request["body"]), {}
                if request["wire"] == "anthropic":
                    old = {key: known.pop(key) for key in OLD_FIELDS if key in known}
                events = list(create[request["wire"]](**known, extra_body=old or None))
                if len(events) < 3:
                    object_to(where, f"only {len(events)} events")
            except Exception as error:  # noqa: BLE001: whatever the client objects to is an objection
                object_to(where, f"{type(error).__name__}: {error}")
            arrived = lines.readline()
            if not arrived:
                object_to(where, "it did not arrive")
                continue
            came = json.loads(arrived)
            for difference in differences(request["body"], came["body"]):
                object_to(f"{where}, as it arrived", difference)
            for problem in came["problems"]:
                # Thoughts signed by another provider are rejected, which is correct.
                if not any(words in problem for words in FOREIGN):
                    object_to(f"{where}, as it arrived", f"illegal: {problem}")
    return counts


THOUGHT = "Two files to read — größer als gedacht."
TEXT = "I read both of them now."
CALLS = [("call_1", "read", {"path": "a/ü.txt"}), ("call_2", "bash", {"command": "ls", "n": [1, 2.5, None]})]
EVERYTHING = {
    "parts": [
        {"thinking": THOUGHT},
        {"text": TEXT},
        *[{"call": {"id": id, "tool": tool, "input": input}} for id, tool, input in CALLS],
    ],
    "piece_size": 7,
    "repeat": True,
}
TOOLS = ["read", "bash"]


def small_request(wire, stream):
    schema = {"type": "object", "properties": {}}
    if wire == "anthropic":
        tools = [{"name": name, "input_schema": schema} for name in TOOLS]
        return {"model": "m", "max_tokens": 99, "stream": stream, "tools": tools,
                "messages": [{"role": "user", "content": "go"}]}
    if wire == "chat":
        tools = [{"type": "function", "function": {"name": name, "parameters": schema}} for name in TOOLS]
        body = {"model": "m", "stream": stream, "tools": tools, "messages": [{"role": "user", "content": "go"}]}
        return body | ({"stream_options": {"include_usage": True}} if stream else {})
    tools = [{"type": "function", "name": name, "parameters": schema, "strict": False} for name in TOOLS]
    return {"model": "m", "stream": stream, "tools": tools, "store": False, "input": "go",
            "include": ["reasoning.encrypted_content"]}


def post(url, body):
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read().decode()


def check_shapes(model):
    """Validates each event and each complete answer with the SDK's models, which the clients do not enforce."""
    counts = Counter()
    scripts = {wire: TypeAdapter(kind) for wire, kind in EVENTS.items()}
    for wire, path in PATHS.items():
        answer = post(model.url + path, small_request(wire, True))
        events = [line.removeprefix("data: ") for line in answer.splitlines() if line.startswith("data: ")]
        for event in events:
            counts[wire] += 1
            # The clients skip events that only keep the connection open or end the stream.
            if event in ("[DONE]", '{"type":"ping"}'):
                continue
            try:
                scripts[wire].validate_json(event)
            except ValidationError as error:
                problem = error.errors()[0]
                object_to(f"{wire} event {event[:90]}", f"{problem['loc']}: {problem['msg']}")
        whole = post(model.url + path, small_request(wire, False))
        counts[wire] += 1
        try:
            TypeAdapter(WHOLE[wire]).validate_json(whole)
        except ValidationError as error:
            problem = error.errors()[0]
            object_to(f"{wire} answer", f"{problem['loc']}: {problem['msg']}")
    return counts


def expect(where, got, wanted):
    if got != wanted:
        object_to(where, f"got {got!r}, wanted {wanted!r}")


def check_helpers(model):
    """The SDKs' own helpers, streaming and not."""
    ours, theirs = model.anthropic(), model.openai()

    def body(wire):
        request = small_request(wire, False)
        request.pop("stream")
        return request

    with ours.messages.stream(**body("anthropic")) as stream:
        for _ in stream:
            pass
        streamed = stream.get_final_message()
    for name, message in (("streamed", streamed), ("whole", ours.messages.create(**body("anthropic")))):
        where = f"anthropic, {name}"
        expect(where, [block.type for block in message.content], ["thinking", "text", "tool_use", "tool_use"])
        expect(where, message.content[0].thinking, THOUGHT)
        expect(where, bool(message.content[0].signature), True)
        expect(where, message.content[1].text, TEXT)
        expect(where, [(each.id, each.name, each.input) for each in message.content[2:]], CALLS)
        expect(where, message.stop_reason, "tool_use")
        expect(where, message.usage.input_tokens > 10 and message.usage.output_tokens > 10, True)

    with theirs.chat.completions.stream(**body("chat")) as stream:
        for _ in stream:
            pass
        streamed = stream.get_final_completion()
    for name, completion in (("streamed", streamed), ("whole", theirs.chat.completions.create(**body("chat")))):
        where, message = f"chat, {name}", completion.choices[0].message
        expect(where, message.content, TEXT)
        expect(where, (message.model_extra or {}).get("reasoning_content"), THOUGHT)
        calls = [(each.id, each.function.name, json.loads(each.function.arguments)) for each in message.tool_calls]
        expect(where, calls, CALLS)
        expect(where, completion.choices[0].finish_reason, "tool_calls")

    with theirs.responses.stream(**body("responses")) as stream:
        for _ in stream:
            pass
        streamed = stream.get_final_response()
    for name, response in (("streamed", streamed), ("whole", theirs.responses.create(**body("responses")))):
        where, items = f"responses, {name}", response.output
        expect(where, [item.type for item in items], ["reasoning", "message", "function_call", "function_call"])
        expect(where, items[0].summary[0].text, THOUGHT)
        expect(where, bool(items[0].encrypted_content), True)
        expect(where, response.output_text, TEXT)
        expect(where, [(each.call_id, each.name, json.loads(each.arguments)) for each in items[2:]], CALLS)
        expect(where, (response.status, response.usage.input_tokens > 10), ("completed", True))


def check_errors(binary, folder):
    """Checks that faults raise the exceptions that the SDKs document."""
    def status(code):
        return {"faults": [{"status": {"status": code}}], "repeat": True}

    rows = [
        (status(400), "BadRequestError"),
        (status(401), "AuthenticationError"),
        (status(403), "PermissionDeniedError"),
        (status(404), "NotFoundError"),
        (status(429), "RateLimitError"),
        (status(500), "InternalServerError"),
        ({"faults": [{"overflow": {"window": 8192}}], "repeat": True}, "BadRequestError"),
        ({"faults": ["hang_up"], "repeat": True}, "APIConnectionError"),
    ]
    count = 0
    for script, expected in rows:
        with Model(binary, folder, [script]) as model:
            calls = {
                "anthropic": lambda body: list(model.anthropic().messages.create(**body)),
                "chat": lambda body: list(model.openai().chat.completions.create(**body)),
                "responses": lambda body: list(model.openai().responses.create(**body)),
            }
            for wire, call in calls.items():
                count += 1
                try:
                    call(small_request(wire, True))
                    object_to(f"{wire} {script}", "no exception")
                except (anthropic.APIError, openai.APIError) as error:
                    expect(f"{wire} {script}", type(error).__name__, expected)
                    if "overflow" in str(script) and wire != "anthropic":
                        expect(f"{wire} {script}", error.code, "context_length_exceeded")
    # A window that is too small. The Responses API reports it in the stream.
    with Model(binary, folder, [EVERYTHING], "--window", "10") as model:
        for create in (model.anthropic().messages.create, model.openai().chat.completions.create):
            count += 1
            try:
                create(**small_request("anthropic" if "anthropic" in create.__module__ else "chat", True))
                object_to("window", "no exception")
            except (anthropic.BadRequestError, openai.BadRequestError):
                pass
        count += 1
        events = list(model.openai().responses.create(**small_request("responses", True)))
        expect("responses, window", [event.type for event in events], ["response.created", "response.failed"])
        expect("responses, window", events[-1].response.error.code, "context_length_exceeded")
    # An error in the middle: the events before it are delivered. The Responses API reports it as an event.
    script = [{"parts": [{"text": TEXT}], "faults": [{"error_event": {"after": 5, "error": "overloaded"}}], "repeat": True}]
    with Model(binary, folder, script) as model:
        for wire, create in (
            ("anthropic", model.anthropic().messages.create),
            ("chat", model.openai().chat.completions.create),
            ("responses", model.openai().responses.create),
        ):
            count, seen = count + 1, []
            try:
                for event in create(**small_request(wire, True)):
                    seen.append(event)
                last = getattr(seen[-1], "type", "")
                expect(f"{wire}, error in the middle", last, "response.failed")
            except (anthropic.APIError, openai.APIError):
                expect(f"{wire}, error in the middle", len(seen) > 0, True)
    return count


def main():
    requests = [json.loads(line) for line in Path(sys.argv[1]).read_text().splitlines()]
    binary = sys.argv[2]
    print(f"anthropic {anthropic.__version__}, openai {openai.__version__}")
    print("broken requests that were objected to:", check_referee(requests))
    print("requests checked with the SDKs' parameters:", dict(check_requests(requests)))
    with tempfile.TemporaryDirectory() as folder:
        print("requests sent through the SDKs' clients:", dict(check_passage(requests, binary, folder)))
        with Model(binary, folder, [EVERYTHING]) as model:
            print("events and answers checked with the SDKs' models:", dict(check_shapes(model)))
            check_helpers(model)
            print("answers put together by the SDKs' helpers: 6")
        print("faults that became the SDKs' exceptions:", check_errors(binary, folder))
    # The same objection to many requests is printed once, with the first of them.
    kinds, first = Counter(), {}
    for objection in objections:
        kind = re.sub(r"\d+", "N", objection)
        kinds[kind] += 1
        first.setdefault(kind, objection)
    for kind, times in kinds.most_common(40):
        print(f"OBJECTION, {times} times: {first[kind][:2_000]}")
    print(f"{len(objections)} objections")
    sys.exit(1 if objections else 0)


main()
