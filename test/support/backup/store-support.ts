import { createHash, randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createRepository } from '../../../src/features/backup-store/repository.service.ts';
import {
  endCredential,
  type IssuedCredential,
  issueCredential,
  type NewCredential,
} from '../../../src/features/backup-store/credentials.ts';
import type { Db } from '../../../src/platform/db/pool.ts';
import { withSystem } from '../../../src/platform/db/transaction.ts';
import { newId } from '../../../src/platform/ids.ts';
import { buildDevice, buildTenant, type Ground } from '../factories.ts';
import { forgeRepository } from '../engine/repository-forge.ts';
import { type Restic, resticFor } from '../restic.ts';
import { createTestApp, type TestApp, type TestAppOptions } from '../test-app.ts';

/** A server whose backup store is in a folder of its own, and what tests do with it. */

export async function createStoreApp(options: TestAppOptions = {}): Promise<TestApp & { dataDir: string }> {
  const dataDir = await mkdtemp(path.join(tmpdir(), 'muster-store-'));
  const app = await createTestApp({
    backupStore: { reserveBytes: 0 },
    ...options,
    env: { DATA_DIR: dataDir, ...options.env },
  });
  const close = async () => {
    await app.close();
    await rm(dataDir, { recursive: true, force: true });
  };
  return { ...app, dataDir, close };
}

export interface Repository {
  id: string;
  orgId: string;
  deviceId: string;
  partnerId: string;
}

export async function buildRepository(app: Ground): Promise<Repository> {
  const { orgId, partnerId } = await buildTenant(app);
  const { deviceId } = await buildDevice(app, orgId);
  const { id } = await inSystem(app, (tx) => createRepository(tx, { orgId, deviceId, configId: null }));
  return { id, orgId, deviceId, partnerId };
}

export const inSystem = <T>(app: Ground, work: Parameters<typeof withSystem<T>>[2]): Promise<T> =>
  withSystem(app.server.database.pool, 'test data', work);

export const issue = (
  app: Ground,
  repositoryId: string,
  role: NewCredential['role'],
  more: Partial<NewCredential> = {},
): Promise<IssuedCredential> =>
  inSystem(app, (tx) =>
    issueCredential(tx, {
      repositoryId,
      role,
      jobId: newId(),
      expiresAt: new Date(Date.now() + 3_600_000),
      ...more,
    }),
  );

export const end = (app: Ground, { id }: IssuedCredential) => inSystem(app, (tx) => endCredential(tx, id));

export const storeUrl = (url: string, repositoryId: string) => `${url}/backup-store/${repositoryId}/`;

export function resticUrl(url: string, repositoryId: string, { user, secret }: IssuedCredential): string {
  const address = new URL(storeUrl(url, repositoryId));
  address.username = user;
  address.password = secret;
  return `rest:${address.href}`;
}

/** restic with a credential of its own and a cache of its own. */
export async function resticAs(
  app: Ground & { url: string; dataDir: string },
  repositoryId: string,
  role: NewCredential['role'],
  more: Partial<NewCredential> = {},
): Promise<Restic & { credential: IssuedCredential }> {
  const credential = await issue(app, repositoryId, role, more);
  const cache = path.join(app.dataDir, `cache-${credential.id}`);
  return { ...resticFor(resticUrl(app.url, repositoryId, credential), cache), credential };
}

export interface StoreCall {
  body?: Buffer | undefined;
  headers?: Record<string, string>;
}

/** One request of the protocol, as restic sends it. */
export async function request(
  url: string,
  repositoryId: string,
  credential: IssuedCredential | undefined,
  [method, place]: [string, string],
  { body, headers = {} }: StoreCall = {},
): Promise<{ status: number; headers: Headers; body: Buffer }> {
  const answer = await fetch(storeUrl(url, repositoryId) + place, {
    method,
    headers: { ...(credential === undefined ? {} : { authorization: basic(credential) }), ...headers },
    ...(body === undefined ? {} : { body: new Uint8Array(body) }),
  });
  return { status: answer.status, headers: answer.headers, body: Buffer.from(await answer.arrayBuffer()) };
}

/** A repository in the store as restic would make it, but at once. Returns the id of its key. */
export async function storeNewRepository(
  app: { url: string },
  repositoryId: string,
  server: IssuedCredential,
  password: string,
  label = { user: 'root', host: 'machine' },
): Promise<string> {
  const { config, keyId, keyFile } = forgeRepository(password, label);
  for (const [place, body] of [
    ['?create=true', undefined],
    [`keys/${keyId}`, keyFile],
    ['config', config],
  ] as const) {
    const answer = await request(app.url, repositoryId, server, ['POST', place], { body });
    if (answer.status !== 200) throw new Error(`${place}: ${answer.status} ${answer.body.toString()}`);
  }
  return keyId;
}

export const basic = ({ user, secret }: Pick<IssuedCredential, 'user' | 'secret'>) =>
  `Basic ${Buffer.from(`${user}:${secret}`).toString('base64')}`;

export const sha256 = (content: Buffer) => createHash('sha256').update(content).digest('hex');

export function anObject(size = 100): { content: Buffer; name: string } {
  const content = randomBytes(size);
  return { content, name: sha256(content) };
}

export async function objectRows(db: Db, repositoryId: string): Promise<Record<string, unknown>[]> {
  return withSystem(db, 'test', (tx) => tx('backup_objects').where({ repository_id: repositoryId }));
}
