// What the scripts share: the client (of OPENAI_BASE_URL and OPENAI_API_KEY), the client's tool, and its outputs.
import OpenAI from 'openai';

export const client = new OpenAI({ maxRetries: 0, timeout: 30_000 });

export const WEATHER = {
  type: 'function',
  function: {
    name: 'get_weather',
    description: 'The weather of a city.',
    parameters: {
      type: 'object',
      properties: { location: { type: 'string' } },
      required: ['location'],
      additionalProperties: false,
    },
    strict: true,
  },
};

export const weatherOf = ({ location }) => ({ Paris: '21 degrees', London: '19 degrees' })[location];

export const outputs = (run) =>
  run.required_action.submit_tool_outputs.tool_calls.map((call) => ({
    tool_call_id: call.id,
    output: weatherOf(JSON.parse(call.function.arguments)),
  }));

// The names of what a stream told, in order and once each, however many deltas there were.
export function listening(stream, names) {
  const told = [];
  for (const name of names) stream.on(name, () => told.includes(name) || told.push(name));
  return told;
}

// One line of JSON, which the test reads.
export const report = (seen) => console.log(JSON.stringify(seen));
