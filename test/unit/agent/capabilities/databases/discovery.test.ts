import { mkdtemp, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { expect } from 'chai';
import type { DatabasePort } from '../../../../../src/agent/capabilities/databases/engine-port.ts';
import { openDatabases } from '../../../../../src/agent/capabilities/databases/handlers.ts';
import type { BackupParts } from '../../../../../src/agent/repository/local-engine.ts';
import { COMMANDS } from '../../../../../src/protocol/index.ts';

describe('agent: the database servers of a machine', () => {
  let folder: string;
  before(async () => {
    folder = await mkdtemp(path.join(os.tmpdir(), 'databases-'));
  });
  after(() => rm(folder, { recursive: true, force: true }));

  it('are listed if one kind of them cannot be looked for, which is named', async () => {
    const found = await discover({
      postgresql: () => Promise.reject(new Error('EACCES: /proc\nmore')),
      mariadb: () => Promise.resolve([server('/run/mysqld/mysqld.sock')]),
    });
    expect(found).to.deep.equal({
      instances: [server('/run/mysqld/mysqld.sock')],
      failed: [{ source: 'postgresql', message: 'EACCES: /proc' }],
    });
  });

  it('are the first 64 of more, with their number, so that the message is not refused', async () => {
    const many = Array.from({ length: 66 }, (_, at) => server(`/run/${at}`));
    expect(await discover({ mariadb: () => Promise.resolve(many.slice(0, 64)) })).to.deep.equal({
      instances: many.slice(0, 64),
    });
    const found = await discover({ mariadb: () => Promise.resolve(many) });
    expect(found).to.deep.equal({ instances: many.slice(0, 64), instanceCount: 66 });
    expect(COMMANDS['backup.databases'].output.parse(found)).to.deep.equal(found);
  });

  const server = (instance: string) => ({
    engine: 'mariadb',
    instance,
    version: '10.11',
    port: 3306,
    dataFolder: null,
    databases: [],
    problems: [],
  });

  async function discover(engines: Record<string, () => Promise<unknown>>): Promise<unknown> {
    const ports = Object.entries(engines).map(
      ([engine, ask]) => ({ engine, discover: ask }) as unknown as DatabasePort,
    );
    const { live } = await openDatabases({ folder } as BackupParts, ports);
    const handler = live['backup.databases'] as unknown as (
      payload: object,
      context: { signal: AbortSignal },
    ) => Promise<unknown>;
    return handler({}, { signal: new AbortController().signal });
  }
});
