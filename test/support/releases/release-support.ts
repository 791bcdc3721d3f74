import { createHash, randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { withSystem } from '../../../src/platform/db/transaction.ts';
import { buildPerson, giveSecondFactor, type Person } from '../factories.ts';
import { type Answer, createTestApp, type TestApp, type TestAppOptions } from '../test-app.ts';

/** A server with a data folder of its own, and a system administrator with a second factor. */
export interface ReleaseBench {
  app: TestApp;
  dataDir: string;
  admin: Person;
  close(): Promise<void>;
}

export async function createReleaseBench({ env, ...options }: TestAppOptions = {}): Promise<ReleaseBench> {
  const dataDir = await mkdtemp(path.join(tmpdir(), 'muster-releases-'));
  const app = await createTestApp({ ...options, env: { DATA_DIR: dataDir, ...env } });
  const admin = await buildPerson(app, { scope: 'system' });
  await giveSecondFactor(app, admin);
  return {
    app,
    dataDir,
    admin,
    async close() {
      await app.close();
      await rm(dataDir, { recursive: true });
    },
  };
}

export const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');

export interface Upload {
  version: string;
  platform?: string;
  bytes?: Buffer;
  headers?: Record<string, string>;
  query?: string;
  token?: string;
}

export async function upload(
  { app, admin }: ReleaseBench,
  {
    version,
    platform = 'agent/linux/x64',
    bytes = randomBytes(3000),
    headers = {},
    query = '',
    token,
  }: Upload,
): Promise<Answer> {
  const response = await fetch(`${app.url}/api/v1/agent-versions/${version}/files/${platform}${query}`, {
    method: 'PUT',
    headers: {
      authorization: `Bearer ${token ?? admin.token}`,
      'x-content-sha256': sha256(bytes),
      ...headers,
    },
    body: new Uint8Array(bytes),
  });
  return { status: response.status, headers: response.headers, body: await response.json() };
}

export const download = ({ app }: ReleaseBench, version: string, init: RequestInit = {}, platform = LINUX) =>
  fetch(`${app.url}/api/v1/agent-versions/${version}/download?${platform}`, { redirect: 'manual', ...init });

export const LINUX = 'component=agent&os=linux&architecture=x64';

export async function query<Row>(app: TestApp, sql: string, values: string[] = []): Promise<Row[]> {
  return withSystem(
    app.server.database.pool,
    'test',
    async (tx) => (await tx.raw(sql, values)).rows as Row[],
  );
}
