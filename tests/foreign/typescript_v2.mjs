// The TypeScript client of the 2026 revision: `typescript_v2.mjs legacy|auto|2026-07-28`.

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

import { LONG_POLL_MS, story } from './story.mjs';

const { GATEHOUSE_URL, GATEHOUSE_KEY } = process.env;
const asked = process.argv[2];
const mode = asked === 'legacy' || asked === 'auto' ? asked : { pin: asked };

const transport = new StreamableHTTPClientTransport(new URL(GATEHOUSE_URL), {
  requestInit: { headers: { Authorization: `Bearer ${GATEHOUSE_KEY}` } },
});
const client = new Client({ name: 'gatehouse-foreign-v2', version: '1.0.0' }, { versionNegotiation: { mode } });
await client.connect(transport);
await story({
  listTools: () => client.listTools(),
  callTool: (name, args) => client.callTool({ name, arguments: args }, { timeout: LONG_POLL_MS }),
});
await client.close();
console.log('story told');
