// The AI SDK 5: chat by its package for compatible servers, Responses by OpenAI's, which asks for thoughts only if the
// name of the model is like one of OpenAI's.
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateText, stepCountIs, streamText, tool } from 'ai';
import { z } from 'zod';

globalThis.AI_SDK_LOG_WARNINGS = false;
const [baseURL, apiKey] = [process.env.OPENAI_BASE_URL, process.env.OPENAI_API_KEY];
const models = {
  chat: createOpenAICompatible({ name: 'retinue', baseURL, apiKey })('thinks'),
  responses: createOpenAI({ baseURL, apiKey }).responses('gpt-5-thinks'),
};
const asking = { chat: { retinue: { include_reasoning: true } }, responses: { openai: { reasoningSummary: 'auto', store: false } } };
const get_weather = tool({
  description: 'The weather of a city.', inputSchema: z.object({ location: z.string() }), execute: async () => 'rain',
});

async function ask(api, streamed, asks) {
  const messages = [];
  const answers = [];
  let thoughts = '';
  for (const content of ['How is it?', 'And now?']) {
    messages.push({ role: 'user', content });
    const asked = { model: models[api], messages, tools: { get_weather }, stopWhen: stepCountIs(5), maxRetries: 0 };
    if (asks) asked.providerOptions = asking[api];
    if (streamed) {
      const result = streamText({ ...asked, onError: () => {} });
      for await (const part of result.fullStream) {
        if (part.type === 'error') throw part.error;
        if (part.type === 'reasoning-delta') thoughts += part.text;
      }
      answers.push(await result.text);
      messages.push(...(await result.response).messages);
    } else {
      const result = await generateText(asked);
      thoughts += result.steps.map((step) => step.reasoningText ?? '').join('');
      answers.push(result.text);
      messages.push(...result.response.messages);
    }
  }
  return [...answers, thoughts.includes('Thought')];
}

const seen = {};
for (const api of ['chat', 'responses']) {
  for (const streamed of [false, true]) {
    for (const asks of [false, true]) {
      seen[`${api} ${streamed ? 'streamed' : 'whole'} ${asks ? 'asks' : 'silent'}`] = await ask(api, streamed, asks);
    }
  }
}
console.log(JSON.stringify(seen));
