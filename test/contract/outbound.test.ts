import { expect } from 'chai';
import { readdirSync, readFileSync } from 'node:fs';
import { join, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { networkUses } from './network-use.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** Programs that are not the server: they connect to addresses that their own operator gave them. */
const OTHER_PROGRAMS = /^src\/(agent|cli|dashboard|watchdog)\//;
const GUARDED_FETCH = /^src\/platform\/outbound\//;

/** Files of the server that connect by themselves, all of them to addresses from the operator's configuration. */
const EXCEPTIONS: Record<string, { uses: string[]; reason: string }> = {
  'src/platform/s3.ts': {
    uses: ['aws4fetch AwsV4Signer', 'fetch'],
    reason:
      'The buckets are named by AUDIT_ARCHIVE_ENDPOINT and RELEASES_S3_ENDPOINT. A bucket that a tenant names must not be reached this way.',
  },
  'src/platform/s3-objects.ts': {
    uses: ['aws4fetch AwsV4Signer', 'node:http request', 'node:https request'],
    reason: 'The operator names the storage; large objects are streamed in both directions.',
  },
  'src/platform/mail.ts': {
    uses: ['nodemailer *'],
    reason: 'The mail server is named by SMTP_URL.',
  },
};

function serverFiles(): string[] {
  return readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })
    .map((path) => `src/${path.split(sep).join('/')}`)
    .filter((path) => /\.(ts|tsx|mjs)$/.test(path) && !OTHER_PROGRAMS.test(path));
}

describe('the network', () => {
  it('is reached by the guarded fetch, and past it only by the files that are listed here', () => {
    const files = serverFiles();
    expect(files.some((path) => GUARDED_FETCH.test(path))).to.equal(true);
    const found = files
      .filter((path) => !GUARDED_FETCH.test(path))
      .map((path) => [path, networkUses(path, readFileSync(join(root, path), 'utf8'))] as const)
      .filter(([, uses]) => uses.length > 0);
    const listed = Object.entries(EXCEPTIONS).map(([path, { uses }]) => [path, uses]);
    expect(Object.fromEntries(found)).to.deep.equal(Object.fromEntries(listed));
  });

  it('is never reached past the guarded fetch by a feature or by the hub', () => {
    expect(Object.keys(EXCEPTIONS).filter((path) => /^src\/(features|hub)\//.test(path))).to.deep.equal([]);
  });

  const breaches = [
    `await fetch('https://x.test')`,
    `const options = { customFetch: fetch }`,
    `const options = { fetch }`,
    `globalThis.fetch('https://x.test')`,
    `new WebSocket('wss://x.test')`,
    `import { request } from 'node:http'`,
    `import https from 'https'`,
    `import * as tls from 'node:tls'`,
    `import { connect } from 'node:net'`,
    `import { lookup } from 'node:dns/promises'`,
    `import { fetch as get } from 'undici'`,
    `await import('node:https')`,
  ];
  for (const text of breaches) {
    it(`would be found in ${text}`, () => {
      expect(networkUses('a.ts', text)).to.have.length(1);
    });
  }

  it('is not what types, servers, addresses and methods of that name are about', () => {
    const text = `import type { Server } from 'node:http'; import { type Socket, isIP } from 'node:net';
      import { createServer } from 'node:http';
      class A { async fetch() { return this.outbound.fetch('https://x.test'); } }
      interface B { fetch(url: string): void; }
      const c = { fetch: 1 }; // fetch()`;
    expect(networkUses('a.ts', text)).to.deep.equal([]);
  });
});
