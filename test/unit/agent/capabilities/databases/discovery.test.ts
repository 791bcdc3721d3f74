import { mkdtemp, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { expect } from 'chai';
import type { DatabasePort } from '../../../../../src/agent/capabilities/databases/engine-port.ts';
import { openDatabases } from '../../../../../src/agent/capabilities/databases/handlers.ts';
import type { BackupParts } from '../../../../../src/agent/repository/backup-parts.ts';

describe('agent: the database servers of a machine', () => {
  let folder: string;
  before(async () => {
    folder = await mkdtemp(path.join(os.tmpdir(), 'databases-'));
  });
  after(() => rm(folder, { recursive: true, force: true }));

  it('are listed where one kind of them cannot be looked for, which is named', async () => {
    const server = { engine: 'mariadb', instance: '/run/mysqld/mysqld.sock', databases: [], problems: [] };
    const port = (engine: string, discover: () => Promise<unknown>) =>
      ({ engine, discover }) as unknown as DatabasePort;
    const { live } = await openDatabases({ folder } as BackupParts, [
      port('postgresql', () => Promise.reject(new Error('EACCES: /proc\nmore'))),
      port('mariadb', () => Promise.resolve([server])),
    ]);
    const { signal } = new AbortController();
    const handler = live['backup.databases'] as unknown as (
      payload: object,
      context: { signal: AbortSignal },
    ) => Promise<unknown>;
    expect(await handler({}, { signal })).to.deep.equal({
      instances: [server],
      failed: [{ source: 'postgresql', message: 'EACCES: /proc' }],
    });
  });
});
