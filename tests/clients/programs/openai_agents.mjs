// OpenAI's Agents SDK for JavaScript: Responses, streamed.
import { Agent, OpenAIResponsesModel, Runner, setTracingDisabled } from '@openai/agents';
import OpenAI from 'openai';
import { KEY, URL, report } from './reporting.mjs';

setTracingDisabled(true);
const client = new OpenAI({ baseURL: URL, apiKey: KEY, maxRetries: 0 });
await report(async (name, question) => {
  const agent = new Agent({ name, model: new OpenAIResponsesModel(client, name) });
  const result = await new Runner().run(agent, question, { stream: true });
  for await (const _ of result);
  await result.completed;
  if (result.error) throw result.error;
  return result.finalOutput;
});
