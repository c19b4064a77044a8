// The TypeScript SDK of the 2025 revisions: `typescript_v1.mjs http|stdio`.

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

import { LONG_POLL_MS, story } from './story.mjs';

const { GATEHOUSE_URL, GATEHOUSE_KEY, FRONT, RUNTIME_DIR } = process.env;

const transport = process.argv[2] === 'stdio'
  ? new StdioClientTransport({ command: FRONT, args: ['stdio', '--runtime-dir', RUNTIME_DIR] })
  : new StreamableHTTPClientTransport(new URL(GATEHOUSE_URL), {
    requestInit: { headers: { 'X-Gatehouse-Key': GATEHOUSE_KEY } },
  });

const client = new Client({ name: 'gatehouse-foreign-v1', version: '1.0.0' });
await client.connect(transport);
await story({
  listTools: () => client.listTools(),
  callTool: (name, args) => client.callTool({ name, arguments: args }, undefined, { timeout: LONG_POLL_MS }),
});
await client.close();
console.log('story told');
