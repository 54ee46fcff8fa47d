// Every helper of the Node SDK for chat completions.
import { WEATHER, client, listening, report, weatherOf } from './shared.mjs';

const { completions } = client.chat;
const asking = (content) => ({ model: 'plain', messages: [{ role: 'user', content }] });
const seen = {};

seen.models = [];
for await (const model of client.models.list()) seen.models.push(model.id);
seen.create = (await completions.create(asking('Hello'))).choices[0].message.content;

// completions.stream with events
const stream = completions.stream({ ...asking('Hello'), stream_options: { include_usage: true } });
const told = listening(stream, ['connect', 'content.delta', 'content.done', 'chatCompletion', 'finalContent', 'end']);
const whole = await stream.finalChatCompletion();
await stream.done();
seen.stream = {
  told,
  content: whole.choices[0].message.content,
  finish: whole.choices[0].finish_reason,
  usage: whole.usage.total_tokens > 0,
};

const calling = completions.stream({ ...asking('What is the weather?'), tools: [WEATHER] });
const call = await calling.finalFunctionToolCall();
seen.streamedCall = [call.name, JSON.parse(call.arguments)];

// completions.parse: a JSON Schema does, zod is not needed
const schema = { type: 'object', properties: { city: { type: 'string' }, degrees: { type: 'integer' } } };
const parsed = await completions.parse({
  ...asking('Answer as JSON'),
  response_format: { type: 'json_schema', json_schema: { name: 'weather', schema } },
});
seen.parse = parsed.choices[0].message.parsed;

// completions.runTools: the SDK calls the tool and goes on by itself, whole and streamed
const { strict, ...described } = WEATHER.function;
const tool = { type: 'function', function: { ...described, parse: JSON.parse, function: weatherOf } };
const runner = completions.runTools({ ...asking('What is the weather?'), tools: [tool] });
seen.runTools = [await runner.finalContent(), await runner.finalFunctionToolCallResult()];
const streaming = completions.runTools({ ...asking('Compare two cities.'), tools: [tool], stream: true });
seen.runToolsStreamed = await streaming.finalContent();

seen.refused = await completions.create({ ...asking('Hello'), model: 'gpt-4' }).catch((error) => ({
  kind: error.constructor.name,
  code: error.code,
}));

report(seen);
