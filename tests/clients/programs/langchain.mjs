// LangChain.js: Responses, streamed.
import { ChatOpenAI } from '@langchain/openai';
import { KEY, URL, report } from './reporting.mjs';

await report(async (model, question) => {
  const configuration = { baseURL: URL, apiKey: KEY };
  const llm = new ChatOpenAI({ model, useResponsesApi: true, maxRetries: 0, configuration });
  let told = '';
  for await (const chunk of await llm.stream(question)) told += chunk.text;
  return told;
});
