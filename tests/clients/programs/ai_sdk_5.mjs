// The AI SDK 5: Responses, streamed and whole; and a person's approval as a function, for it knows no other form.
import { createOpenAI } from '@ai-sdk/openai';
import { generateText, stepCountIs, streamText, tool } from 'ai';
import { z } from 'zod';
import { KEY, URL, report } from './reporting.mjs';

globalThis.AI_SDK_LOG_WARNINGS = false;
const openai = createOpenAI({ baseURL: URL, apiKey: KEY });

async function ask(model, prompt) {
  const result = streamText({ model: openai.responses(model), prompt, maxRetries: 0, onError: () => {} });
  let told = '';
  for await (const part of result.fullStream) {
    if (part.type === 'error') throw part.error;
    if (part.type === 'text-delta') told += part.text;
  }
  return told;
}

const human_input = tool({
  description: 'Ask a person.',
  inputSchema: z.object({ tool: z.string(), arguments: z.record(z.string(), z.any()) }),
  execute: async () => 'approve',
});
const asked = { maxRetries: 0, stopWhen: stepCountIs(3) };
const whole = await generateText({ ...asked, model: openai.responses('tool_calling'), prompt: '2 to the power of 3?' });
const approved = await generateText({
  ...asked, model: openai.responses('waiter'), prompt: 'Please book a table.', tools: { human_input },
});
await report(ask, { whole: whole.text, approved: approved.text });
