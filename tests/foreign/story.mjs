// What each TypeScript client does with the front: list the tools, run a small session, meet both kinds of error.
// `client` has listTools() and callTool(name, arguments); both validate structured results against the output schema.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';

export const LONG_POLL_MS = 70_000;
const project = process.env.PROJECT;

async function waitFor(client, state, wanted) {
  for (let polls = 0; polls < 20 && !wanted(state); polls += 1) {
    const { native_session_id, lease_id } = state;
    const result = await client.callTool('native_session_status', { native_session_id, lease_id, wait_seconds: 10 });
    state = result.structuredContent;
  }
  assert.ok(wanted(state), JSON.stringify(state));
  return state;
}

async function reply(client, state, content) {
  const { native_session_id, lease_id, pending_turn } = state;
  const ids = { native_session_id, lease_id, turn_id: pending_turn.turn_id, reply_id: randomUUID() };
  const result = await client.callTool('native_session_reply_and_wait', { ...ids, ...content });
  return result.structuredContent;
}

async function session(client) {
  const started = await client.callTool('native_session_start', {
    prompt: 'What stands in the read-me?', working_directory: project, idempotency_key: randomUUID(), wait_seconds: 30,
  });
  assert.ok(started.content[0].text.includes(started.structuredContent.native_session_id));
  let state = await waitFor(client, started.structuredContent, (now) => now.pending_turn !== null);
  assert.equal(state.route, 'chatgpt-main');
  state = await reply(client, state, { tool_calls: [{ name: 'Read', input: { file_path: `${project}/README.md` } }] });
  state = await waitFor(client, state, (now) => now.pending_turn?.tool_results.length === 1);
  assert.ok(state.pending_turn.tool_results[0].receipt.content.includes('Lantern'));
  state = await reply(client, state, { text: 'It is about a lantern.' });
  state = await waitFor(client, state, (now) => now.status === 'idle');
  assert.equal(state.last_result.text, 'It is about a lantern.');
  const { native_session_id, lease_id } = state;
  await client.callTool('native_session_stop', { native_session_id, lease_id, request_id: randomUUID() });
}

async function errors(client) {
  const nobody = { native_session_id: `ns_${'0'.repeat(32)}`, lease_id: `lease_${'0'.repeat(32)}` };
  const refused = await client.callTool('native_session_status', nobody);
  assert.equal(refused.isError, true);
  assert.equal(JSON.parse(refused.content[0].text).code, 'unknown_session');
  assert.equal(refused.structuredContent, undefined);
  await assert.rejects(client.callTool('Bash', { command: 'ls' }), /-32602|not found|unknown tool|no tool/i);
}

export async function story(client) {
  const { tools } = await client.listTools();
  assert.deepEqual(tools.map((tool) => tool.name).sort(), [
    'native_session_continue', 'native_session_recover', 'native_session_reply_and_wait', 'native_session_start',
    'native_session_status', 'native_session_stop',
  ]);
  await session(client);
  await errors(client);
}
