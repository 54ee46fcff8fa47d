// The Vercel AI SDK: a person approves what the server's own tools do, streamed and not.
import { createOpenAI } from '@ai-sdk/openai';
import { generateText, streamText } from 'ai';
import { report } from './shared.mjs';

globalThis.AI_SDK_LOG_WARNINGS = false; // they would be among what is reported
const openai = createOpenAI({ baseURL: process.env.OPENAI_BASE_URL, apiKey: process.env.OPENAI_API_KEY });
const asking = (content) => [{ role: 'user', content }];

const generated = async (asked) => {
  const { content, responseMessages, response } = await generateText({ maxRetries: 0, ...asked });
  return { content, messages: responseMessages ?? response.messages };
};
const streamed = async (asked) => {
  const result = streamText({ maxRetries: 0, ...asked });
  const told = new Set();
  for await (const part of result.fullStream) {
    if (part.type === 'error') throw part.error;
    told.add(part.type);
  }
  const messages = (await result.responseMessages) ?? (await result.response).messages;
  return { content: await result.content, messages, told: [...told] };
};

// What is asked for approval, and what is said once it was given, or not.
const loop = async (run, approved, question, more = {}) => {
  const asked = { model: openai.responses('waiter'), ...more };
  const messages = asking(question);
  const first = await run({ ...asked, messages });
  const requests = first.content.filter((part) => part.type === 'tool-approval-request');
  const content = requests.map(({ approvalId }, at) => ({
    type: 'tool-approval-response',
    approvalId,
    approved: approved[at],
    providerExecuted: true,
  }));
  messages.push(...first.messages, { role: 'tool', content });
  const second = await run({ ...asked, messages });
  const text = (result) => result.content.filter((part) => part.type === 'text').map((part) => part.text).join('');
  messages.push(...second.messages, ...asking('Hello'));
  const third = await run({ ...asked, messages });
  return [requests.map(({ toolCall }) => [toolCall.toolName, toolCall.input]), text(second), text(third)];
};

const seen = {};
const declared = {
  tools: {
    mcp: openai.tools.mcp({ serverLabel: 'waiter', serverUrl: process.env.OPENAI_BASE_URL, requireApproval: 'always' }),
  },
};
const TABLE = 'Please book a table.';
for (const [name, run] of Object.entries({ generated, streamed })) {
  seen[name] = {
    approved: await loop(run, [true], TABLE),
    declined: await loop(run, [false], TABLE),
    declared: await loop(run, [true], TABLE, declared),
    both: await loop(run, [true, true], 'Please book two tables.'),
    one: await loop(run, [true, false], 'Please book two tables.'),
    unstored: await loop(run, [true], TABLE, { providerOptions: { openai: { store: false } } }),
  };
}
report(seen);
