// Every helper of the Node SDK for assistants, threads and runs.
import { WEATHER, client, listening, outputs, report } from './shared.mjs';

const { assistants, threads } = client.beta;
const EVENTS = [
  'runStepCreated', 'toolCallCreated', 'toolCallDelta', 'toolCallDone', 'messageCreated', 'textCreated', 'textDelta', 'messageDelta',
  'textDone', 'messageDone', 'runStepDone', 'run', 'end',
];
const seen = {};

const assistant = await assistants.create({ model: 'plain', name: 'Kim', tools: [WEATHER] });
const asking = (content) => ({ assistant_id: assistant.id, thread: { messages: [{ role: 'user', content }] } });

async function said(run) {
  const page = await threads.messages.list(run.thread_id, { run_id: run.id });
  return page.data.map((message) => message.content[0].text.value);
}

// runs.create, runs.poll; runs.createAndPoll; threads.createAndRunPoll
const thread = await threads.create({ messages: [{ role: 'user', content: 'Hello' }] });
const queued = await threads.runs.create(thread.id, { assistant_id: assistant.id });
const polled = await threads.runs.poll(queued.id, { thread_id: thread.id });
seen.poll = [queued.status, polled.status, await said(polled)];
await threads.messages.create(thread.id, { role: 'user', content: 'Answer as JSON' });
const created = await threads.runs.createAndPoll(thread.id, { assistant_id: assistant.id });
seen.createAndPoll = [created.status, await said(created)];

// threads.createAndRunPoll, runs.submitToolOutputsAndPoll
const waiting = await threads.createAndRunPoll(asking('Compare two cities.'));
const done = await threads.runs.submitToolOutputsAndPoll(waiting.id, {
  thread_id: waiting.thread_id,
  tool_outputs: outputs(waiting),
});
seen.submitToolOutputsAndPoll = [waiting.status, done.status, await said(done)];

// runs.stream with events; the SDK's own order of them
const asked = await threads.create({ messages: [{ role: 'user', content: 'What is the weather?' }] });
const stream = threads.runs.stream(asked.id, { assistant_id: assistant.id });
const events = [];
stream.on('event', ({ event }) => events.at(-1) === event || events.push(event));
const told = listening(stream, EVENTS);
const streamed = await stream.finalRun();
await stream.done();
seen.stream = { status: streamed.status, events, told, steps: (await stream.finalRunSteps()).length };

// runs.submitToolOutputsStream
const rest = threads.runs.submitToolOutputsStream(streamed.id, {
  thread_id: asked.id,
  tool_outputs: outputs(streamed),
});
const toldOfRest = listening(rest, EVENTS);
let text = '';
rest.on('textDelta', (delta) => (text += delta.value));
const ended = await rest.finalRun();
await rest.done();
seen.submitToolOutputsStream = { status: ended.status, text, told: toldOfRest };

// threads.createAndRunStream, as an iterator; runs.createAndStream
const names = [];
for await (const { event } of threads.createAndRunStream(asking('Hello'))) names.at(-1) === event || names.push(event);
seen.createAndRunStream = names;
await threads.messages.create(asked.id, { role: 'user', content: 'Hello' });
const again = threads.runs.createAndStream(asked.id, { assistant_id: assistant.id });
seen.createAndStream = (await again.finalRun()).status;

// lists turn their own pages; a step can be looked up
const steps = [];
for await (const step of threads.runs.steps.list(done.id, { thread_id: done.thread_id, limit: 1, order: 'asc' })) {
  steps.push(step.type);
}
seen.steps = steps;

// what is refused has OpenAI's texts
const active = await threads.createAndRunPoll(asking('What is the weather?'));
seen.refused = await threads.runs.create(active.thread_id, { assistant_id: assistant.id }).catch((error) => ({
  kind: error.constructor.name,
  status: error.status,
  message: error.error.message,
  expected: `Thread ${active.thread_id} already has an active run ${active.id}.`,
  requestID: Boolean(error.requestID),
}));
const cancelled = await threads.runs.cancel(active.id, { thread_id: active.thread_id });
seen.cancel = (await threads.runs.poll(cancelled.id, { thread_id: active.thread_id })).status;
seen.deleted = (await assistants.delete(assistant.id)).deleted;

report(seen);
