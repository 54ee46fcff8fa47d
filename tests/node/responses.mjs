// The Node SDK's helpers for responses.
import { WEATHER, client, report, weatherOf } from './shared.mjs';

const { responses } = client;
const asking = (input) => ({ model: 'plain', input });
const TOOL = { type: 'function', ...WEATHER.function };
const outputs = (response) =>
  response.output
    .filter((item) => item.type === 'function_call')
    .map((call) => ({
      type: 'function_call_output',
      call_id: call.call_id,
      output: weatherOf(JSON.parse(call.arguments)),
    }));
const seen = {};

const first = await responses.create(asking('Hello'));
seen.create = first.output_text;
seen.retrieve = (await responses.retrieve(first.id)).output_text;
seen.goingOn = (await responses.create({ ...asking('Hello'), previous_response_id: first.id })).output_text;
seen.inputItems = [];
for await (const item of responses.inputItems.list(first.id)) seen.inputItems.push(item.content[0].text);

// responses.stream with events
const stream = responses.stream(asking('Hello'));
const told = [];
for await (const event of stream) if (told.at(-1) !== event.type) told.push(event.type);
seen.stream = { told, text: (await stream.finalResponse()).output_text };

// responses.parse: a JSON Schema does, zod is not needed
const schema = { type: 'object', properties: { city: { type: 'string' }, degrees: { type: 'integer' } } };
const format = { type: 'json_schema', name: 'weather', schema };
seen.parse = (await responses.parse({ ...asking('Answer as JSON'), text: { format } })).output_parsed;

// a tool loop, streamed
const calling = responses.stream({ ...asking('Compare two cities.'), tools: [TOOL] });
const called = await calling.finalResponse();
const answered = responses.stream({ ...asking(outputs(called)), previous_response_id: called.id, tools: [TOOL] });
seen.tools = [called.output.map((call) => call.name), (await answered.finalResponse()).output_text];

// in the background, from any event
const begun = await responses.create({ ...asking('Answer slowly'), background: true });
const rest = responses.stream({ response_id: begun.id, starting_after: 1 });
seen.background = [begun.status, (await rest.finalResponse()).output_text];
seen.cancel = await responses.cancel(begun.id).catch((error) => error.error.message);
await responses.delete(begun.id);
seen.deleted = await responses.retrieve(begun.id).catch((error) => error.constructor.name);

report(seen);
