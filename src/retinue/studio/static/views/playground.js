// @ts-check
// A chat with a served agent: streamed, with its steps beside it, and decisions on what waits for a person.

import { isOver, runOf, textOf, todosOf, waiting } from "../folds/response_stream.js";
import { duration, parsed } from "../format.js";
import { html, useEffect, useRef, useState } from "../html.js";
import { Decided, Decisions } from "../parts/decisions.js";
import { Empty, ErrorBox, Status } from "../parts/elements.js";
import { useGet, useResource } from "../parts/hooks.js";
import { runWithEvents } from "../parts/run_events.js";
import { Copy, Json, Thoughts } from "../parts/text.js";
import { Todos } from "../parts/todos.js";
import { Link, navigate } from "../router.js";
import { attach, decide, reset, say, stop, useChat } from "./chat.js";

const NEAR = 160; // pixels from the end within which a growing answer is followed

export default function Playground({ query }) {
  const { data, notice } = useGet("/v1/studio/agents");
  const chat = useChat();
  const names = data?.data.map((one) => one.id) ?? [];
  const wanted = query.get("agent");
  const agent = [wanted, chat.agent, names[0]].find((one) => names.includes(one)) ?? "";
  const questions = data?.data.find((one) => one.id === agent)?.questions ?? [];
  useEffect(() => {
    if (agent && agent !== chat.agent) reset(agent);
  }, [agent, chat.agent]);
  if (notice) return notice;
  if (!names.length)
    return html`<${Empty} title="No agents are served">Start the server with a file: <code>retinue serve agents.yml</code><//>`;
  return html`<div class="playground">
    <header class="toolbar">
      <h1>Playground</h1>
      <label class="sr" for="agent">Agent</label>
      <select id="agent" value=${agent} onChange=${(event) => navigate(`/playground?agent=${encodeURIComponent(event.target.value)}`)}>
        ${names.map((name) => html`<option key=${name} value=${name}>${name}</option>`)}
      </select>
      <${Link} to=${`/agents/${encodeURIComponent(agent)}`}>How it is made<//>
      ${chat.turns.length > 0 && html`<button class="push" onClick=${() => reset(agent)}>New conversation</button>`}
    </header>
    <${Turns} chat=${chat} agent=${agent} questions=${questions} />
    <${Composer} chat=${chat} agent=${agent} />
  </div>`;
}

function Turns({ chat, agent, questions }) {
  const end = useRef(null);
  const size = chat.turns.reduce((sum, turn) => sum + turn.responses.reduce((more, one) => more + one.last + 1, 1), 0);
  useEffect(() => {
    const page = document.documentElement;
    const last = chat.turns[chat.turns.length - 1];
    const begun = last && !last.responses.some((one) => one.last > 2);
    if (begun || page.scrollHeight - page.scrollTop - page.clientHeight < NEAR)
      end.current?.scrollIntoView({ block: "end" });
  }, [size]);
  if (!chat.turns.length)
    return html`<div class="turns"><${Empty} title=${`Say something to ${agent}`}>What it does is shown as it happens, and each answer is a run that is kept.<//><${Questions} questions=${questions} /></div>`;
  return html`<div class="turns" role="log" aria-label="Conversation">
    ${chat.turns.map((turn) => html`<${Turn} key=${turn.id} turn=${turn} />`)}
    <div ref=${end} class="turns-end"></div>
  </div>`;
}

/** What one may ask; a click asks it. */
function Questions({ questions }) {
  if (!questions.length) return null;
  return html`<ul class="suggested" aria-label="What you may ask">
    ${questions.map((text, at) => html`<li key=${at}><button type="button" onClick=${() => say(text, [])}>${text}</button></li>`)}
  </ul>`;
}

function Turn({ turn }) {
  const items = turn.responses.flatMap((response) =>
    response.items.map((item, at) => ({ item, time: response.times[at], response })).filter((one) => one.item),
  );
  const calls = items.filter(({ item }) => item.type.endsWith("_call"));
  const said = items.filter(({ item }) => item.type === "message");
  const thought = items.filter(({ item }) => item.type === "reasoning").map(({ item }) => textOf(item));
  const last = turn.responses[turn.responses.length - 1];
  return html`<article class="turn">
    <div class="asked">
      ${turn.text && html`<p>${turn.text}</p>`}
      ${turn.parts.length > 0 && html`<ul class="parts">${turn.parts.map((part) => html`<li><${Part} part=${part} /></li>`)}</ul>`}
    </div>
    <div class="answered">
      <div class="answer">
        ${turn.responses.flatMap((one) => (one.decisions ? waiting(one).map((request) => html`<p key=${request.id} class="muted"><${Decided} tool=${request.name} decision=${one.decisions[request.id]} /></p>`) : []))}
        <${Thoughts} text=${thought.join("\n\n")} />
        ${said.map(({ item }) => html`<p key=${item.id} class=${item.status === "incomplete" ? "speech speech-cut" : "speech"}>${textOf(item)}</p>`)}
        ${last && html`<${Progress} last=${last} saying=${said.length > 0} />`}
        ${last && !turn.error && html`<${Waiting} key=${last.id} turn=${turn} last=${last} />`}
        ${turn.error && html`<${ErrorBox} error=${turn.error} />`}
        ${last?.error && html`<${ErrorBox} error=${last.error} />`}
        ${last && isOver(last) && html`<${Ended} turn=${turn} last=${last} text=${said.map(({ item }) => textOf(item)).join("\n\n")} />`}
      </div>
      ${
        calls.length > 0 &&
        html`<aside class="steps" aria-label="Steps"><${Todos} items=${todosOf(calls.map((one) => one.item))} open /><ol>${calls.map((one) => html`<li key=${one.item.id}><${Call} ...${one} /></li>`)}</ol></aside>`
      }
    </div>
  </article>`;
}

const Part = ({ part }) =>
  part.preview ? html`<img src=${part.preview} alt=${part.name} />` : html`<span class="file">${part.name}</span>`;

function Progress({ last, saying }) {
  if (isOver(last) || last.error) return null;
  const running = last.items.find((item) => item?.status === "in_progress" && item.type !== "message");
  const text = running
    ? `${running.name ?? "a tool"} is running`
    : last.status === "queued"
      ? "Waiting for its turn"
      : saying
        ? ""
        : "Thinking";
  return html`<p class="progress" role="status"><span class="pulse" aria-hidden="true"></span>${text}</p>`;
}

function Ended({ turn, last, text }) {
  const tokens = turn.responses.reduce((sum, one) => sum + (one.usage?.total_tokens ?? 0), 0);
  const seconds = turn.responses.reduce((sum, one) => sum + ((one.ended ?? one.began) - one.began) / 1000, 0);
  const status = last.status === "completed" && waiting(last).length ? "requires_action" : last.status;
  return html`<footer class="ended muted">
    ${status !== "completed" && html`<${Status} value=${status} />`}
    ${last.reason && html`<span>${last.reason.replaceAll("_", " ")}</span>`}
    <span class="num">${duration(seconds)}</span>
    ${tokens > 0 && html`<span class="num">${tokens.toLocaleString("en")} tokens</span>`}
    <${Link} to=${`/runs/${runOf(last.id)}`}>Open the run<//>
    ${text && html`<${Copy} text=${text} label="the answer" />`}
  </footer>`;
}

/** The calls that wait for a person. */
function Waiting({ turn, last }) {
  const requests = waiting(last);
  const asks = requests.length > 0 && !last.decisions;
  const { data } = useResource(
    (signal) => (asks ? askedOf(runOf(last.id), signal) : Promise.resolve(null)),
    [asks, last.id],
  );
  if (!asks) return null;
  const calls = requests.map(({ id, name, arguments: given }) => ({
    id,
    tool: name,
    arguments: given,
    question: data?.questions.get(name),
    user: data?.user,
  }));
  return html`<${Decisions} calls=${calls} send=${(decisions) => decide(turn, decisions)} />`;
}

/** What a run asks a person, by tool or gate, and for which user it is. */
async function askedOf(id, signal) {
  const { run, events } = await runWithEvents(id, signal);
  const paused = events.filter((one) => one.type === "paused");
  return { questions: new Map(paused.map(({ data }) => [data.action?.tool, data.problem])), user: run.user };
}

const outcomeOf = (item) =>
  item.error ? "failed" : item.status === "completed" ? "result" : (item.status ?? "in_progress");

function Call({ item, time }) {
  const error =
    item.error &&
    (typeof item.error === "string" ? item.error : (item.error.content ?? item.error.message ?? item.error));
  const given = item.arguments ?? item.code ?? item.queries;
  const output = error || (item.output ?? item.outputs ?? item.results);
  return html`<details class="step-row">
    <summary>
      <span class="step-name">${item.name ?? item.type.replace(/_call$/, "").replaceAll("_", " ")}</span>
      <span class="step-given muted">${brief(given)}</span>
      <${Status} value=${outcomeOf(item)} />
      ${time?.ended && html`<span class="num muted">${duration((time.ended - time.began) / 1000)}</span>`}
    </summary>
    ${given && html`<${Json} label="Input" value=${given} lines=${8} />`}
    ${output != null && html`<${Json} label=${error ? "Error" : "Output"} value=${output} lines=${8} />`}
  </details>`;
}

/** The values of a call's arguments, in one line. */
function brief(given) {
  const value = parsed(given);
  const parts = value && typeof value === "object" ? Object.values(value) : [value ?? ""];
  return parts
    .map((one) => (typeof one === "string" ? one : JSON.stringify(one)))
    .join(", ")
    .slice(0, 120);
}

function Composer({ chat, agent }) {
  const [text, setText] = useState("");
  const [parts, setParts] = useState(/** @type {any[]} */ ([]));
  const [problem, setProblem] = useState("");
  const box = useRef(null);
  const files = useRef(null);
  const blocked = chat.sending || lastWaits(chat);
  useEffect(() => box.current?.focus({ preventScroll: true }), [chat.sending, agent]);
  useEffect(() => grow(box.current), [text]);
  const take = async (chosen) => {
    setProblem("");
    for (const file of chosen) {
      try {
        const part = await attach(file);
        setParts((before) => [...before, part]);
      } catch (error) {
        setProblem(error.message);
      }
    }
  };
  const send = (event) => {
    event?.preventDefault();
    if (blocked || (!text.trim() && !parts.length)) return;
    say(text.trim(), parts);
    setText("");
    setParts([]);
  };
  const pressed = (event) => event.key === "Enter" && !event.shiftKey && !event.isComposing && send(event);
  const given = (event, files) => {
    if (!files.length) return;
    event.preventDefault();
    take([...files]);
  };
  const chosen = (event) => {
    take([...event.target.files]);
    event.target.value = "";
  };
  return html`<form class="composer" onSubmit=${send} onDrop=${(event) => given(event, event.dataTransfer.files)} onDragOver=${(event) => event.preventDefault()}>
    ${problem && html`<${ErrorBox} error=${problem} />`}
    ${
      parts.length > 0 &&
      html`<ul class="parts">${parts.map(
        (part, at) => html`<li key=${at}><${Part} part=${part} />
        <button type="button" class="quiet" aria-label=${`Remove ${part.name}`} onClick=${() => setParts(parts.filter((one) => one !== part))}>✕</button></li>`,
      )}</ul>`
    }
    <label class="sr" for="message">Message</label>
    <textarea id="message" ref=${box} rows="1" value=${text} placeholder=${blocked && !chat.sending ? "Decide on what waits first" : `Message to ${agent}`} onInput=${(event) => setText(event.target.value)} onKeyDown=${pressed} onPaste=${(event) => given(event, event.clipboardData.files)}></textarea>
    <div class="composer-row">
      <input ref=${files} type="file" multiple class="sr" tabindex="-1" aria-label="Images and text files" onChange=${chosen} />
      <button type="button" class="quiet" onClick=${() => files.current.click()}>Attach</button>
      <span class="muted hint wide-only">Enter sends, Shift-Enter begins a line</span>
      ${chat.sending ? html`<button type="button" class="push" onClick=${stop}>Stop</button>` : html`<button class="primary push" disabled=${blocked || (!text.trim() && !parts.length)}>Send</button>`}
    </div>
  </form>`;
}

function lastWaits(chat) {
  const responses = chat.turns[chat.turns.length - 1]?.responses ?? [];
  const last = responses[responses.length - 1];
  return Boolean(last && !last.decisions && waiting(last).length);
}

/** Make a text box as high as its text. `rows` is an attribute, which the page's policy allows; a style is none. */
function grow(box) {
  if (!box) return;
  box.rows = Math.min(10, Math.max(1, box.value.split("\n").length, Math.ceil(box.value.length / 90)));
}
