// What a client made of a server's answers, as JSON: of an answer, of a server's own tool, and of a stream that fails.
export const URL = process.env.OPENAI_BASE_URL;
export const KEY = process.env.OPENAI_API_KEY;
const TOLD = 'The model behind this agent cannot be used';

// `ask` is given an agent and a question.
export async function report(ask, more = {}) {
  const seen = { answer: await ask('plain', 'Hello'), tool: await ask('tool_calling', 'What is 2 to the power of 3?') };
  try {
    seen.failure = `no exception, but '${await ask('plain', 'Something unheard of')}'`;
  } catch (error) {
    seen.failure = JSON.stringify(error).includes(TOLD) || String(error).includes(TOLD) ? 'raised' : String(error);
  }
  console.log(JSON.stringify({ ...seen, ...more }));
}
