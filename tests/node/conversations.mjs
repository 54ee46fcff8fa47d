// Conversations and their items.
import { client, report } from './shared.mjs';

const { conversations } = client;
const { items } = conversations;
const seen = {};

const made = await conversations.create({ metadata: { place: 'kitchen' }, items: [{ role: 'user', content: 'One' }] });
seen.update = (await conversations.update(made.id, { metadata: { place: 'hall' } })).metadata;
const added = await items.create(made.id, {
  items: [
    { type: 'function_call', call_id: 'call_1', name: 'get_weather', arguments: '{}' },
    { type: 'function_call_output', call_id: 'call_1', output: '21 degrees' },
  ],
});
seen.added = added.data.map((item) => [item.type, item.status]);

// a page has one: the SDK asks for all of them
seen.listed = [];
for await (const item of items.list(made.id, { order: 'asc', limit: 1, include: ['file_search_call.results'] })) {
  seen.listed.push(item.type);
}
const found = await items.retrieve(added.data[0].id, { conversation_id: made.id });
seen.same = JSON.stringify(found) === JSON.stringify(added.data[0]);
seen.afterDelete = (await items.delete(found.id, { conversation_id: made.id })).id === made.id;
seen.deleted = (await conversations.delete(made.id)).deleted;
try {
  await conversations.retrieve(made.id);
} catch (error) {
  seen.refused = { kind: error.constructor.name, same: error.error.message === `Conversation with id '${made.id}' not found.` };
}
report(seen);
