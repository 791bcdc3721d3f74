import { expect } from 'chai';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Person } from './factories.ts';
import { type Ran, type RunningMuster, startMuster } from './run-muster.ts';
import type { TestApp } from './test-app.ts';

/** A person who uses `muster` from afar, with a sign-in of their own. */
export interface CliUser {
  /** Of a process of its own that the user starts. */
  env: Record<string, string>;
  keyId: string;
  start(...args: string[]): RunningMuster;
  run(...args: string[]): Promise<Ran>;
  /** Each line of the standard output, which is one value. */
  json(...args: string[]): Promise<{ code: number; lines: Record<string, unknown>[]; err: string }>;
  leave(): Promise<void>;
}

/** @param scopes  what the key may do of what the person may */
export async function signInAtCli(
  app: Pick<TestApp, 'call' | 'url'>,
  person: Person,
  scopes: readonly string[],
  url = app.url,
): Promise<CliUser> {
  const home = await mkdtemp(path.join(tmpdir(), 'muster-cli-'));
  const env = { XDG_CONFIG_HOME: home };
  const { body, status } = await app.call('POST', '/api-keys', {
    token: person.token,
    body: { name: 'Terminal', scopes },
  });
  expect(status, JSON.stringify(body)).to.equal(201);
  const login = startMuster(['login', '--server', url, '--key-stdin'], { env, stdin: `${body.key}\n` });
  const signedIn = await login.ended;
  expect(signedIn.code, signedIn.err).to.equal(0);
  const start = (...args: string[]) => startMuster(args, { env });
  const run = (...args: string[]) => start(...args).ended;
  return {
    env,
    keyId: body.id,
    start,
    run,
    async json(...args) {
      const { code, out, err } = await run(...args, '--json');
      return { code, err, lines: jsonLines(out) };
    },
    leave: () => rm(home, { recursive: true, force: true }),
  };
}

export const jsonLines = (text: string): Record<string, unknown>[] =>
  text
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Record<string, unknown>);
