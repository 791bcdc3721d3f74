import { expect } from 'chai';
import {
  findDuePrune,
  findOutdated,
  findProtected,
  markRemoved,
} from '../../../../src/features/backup/retention.service.ts';
import { watchBackups } from '../../../../src/features/backup/watch.work.ts';
import { eventually } from '../../../support/eventually.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';
import { type BackupTenant, buildBackupTenant } from '../../../support/backup/backup-support.ts';
import { inSystem } from '../../../support/backup/store-support.ts';
import {
  buildVaultDevice,
  connected,
  type VaultDevice,
} from '../../../support/backup/vaults/vault-support.ts';

/** Databases through the interface: what devices list, what can be restored, and what retention keeps. */
describe('databases of devices', function () {
  this.timeout(60_000);
  let app: TestApp;
  let tenant: BackupTenant;
  let device: VaultDevice;
  let configId: string;

  before(async () => {
    app = await sharedTestApp();
    tenant = await buildBackupTenant(app);
    ({ id: configId } = await tenant.createConfig({
      name: 'Shop',
      sources: { kind: 'database', engine: 'postgresql' },
      retention: { keepLast: 1 },
    }));
    device = await buildVaultDevice(app, tenant, configId);
  });
  after(async () => app?.close());

  const HOUR = 3_600_000;
  const at = (hoursAgo: number) =>
    new Date(Math.floor(Date.now() / HOUR) * HOUR - hoursAgo * HOUR).toISOString();
  const position = (hoursAgo: number) => `0/${(0x10000000 - hoursAgo * 0x1000).toString(16).toUpperCase()}`;
  const add = (hoursAgo: number, backupType: 'full' | 'log', since = hoursAgo) =>
    device.addSnapshot(hoursAgo, {
      backup_type: 'database',
      job_id: '01931f2e-0c2d-7a4e-9b1f-5d3c2b1a0f93',
      details: JSON.stringify({
        kind: 'database',
        engine: 'postgresql',
        instance: '/run/a',
        databases: ['shop'],
        backupType,
        version: '15.8',
        from: position(since),
        to: position(hoursAgo),
        branch: '1/1',
        basedOn: null,
        recoverableFrom: backupType === 'full' ? at(hoursAgo) : null,
        recoverableTo: at(hoursAgo),
      }),
    });

  it('have chains with ranges of instants; retention keeps what a kept snapshot needs, and nothing else', async () => {
    const DAYS = 24;
    const old = await add(40 * DAYS, 'full');
    const oldLog = await add(39 * DAYS, 'log', 40 * DAYS);
    const full = await add(30 * DAYS, 'full');
    const first = await add(29 * DAYS, 'log', 30 * DAYS);
    const last = await add(28 * DAYS, 'log', 29 * DAYS);
    const { body } = await tenant.send('GET', `/backup/databases/chains?deviceId=${device.deviceId}`);
    const [{ chains, broken }] = body.data;
    expect(chains.map(({ snapshots }: { snapshots: unknown[] }) => snapshots.length)).to.deep.equal([3, 2]);
    expect(chains[0].ranges).to.deep.equal([{ from: at(30 * DAYS), to: at(28 * DAYS) }]);
    expect(broken).to.deep.equal([]);

    // `keepLast: 1` alone would keep the last log only.
    const outdated = await findOutdated(app.server.database.pool, device.sourceId);
    const goes = outdated.map(({ engineId }) => engineId);
    expect(goes).to.have.members([old, oldLog]);
    expect(goes).not.to.include.members([full, first, last]);

    // A hold on the log, set since the decision, keeps the full backup that the log needs.
    await inSystem(app, (tx) =>
      tx('backup_snapshots').where({ engine_id: oldLog }).update({ legal_hold: true }),
    );
    const { pool } = app.server.database;
    expect(await findProtected(pool, device.sourceId, [old, first])).to.deep.equal([old]);
    expect(await markRemoved(pool, device.sourceId, outdated)).to.equal(0);
    await inSystem(app, (tx) =>
      tx('backup_snapshots').where({ engine_id: oldLog }).update({ legal_hold: false }),
    );
    expect(await markRemoved(pool, device.sourceId, outdated)).to.equal(2);
    const due = await findDuePrune(pool, device.sourceId);
    expect(due?.map(({ engineId }) => engineId)).to.have.members([old, oldLog]);
  });

  it('raise an alert while the newest backup cannot be restored, which the next full backup ends', async () => {
    const watch = async () => {
      await watchBackups(app.server.database.jobPool, new AbortController().signal);
      const { body } = await tenant.send('GET', `/alerts?deviceId=${device.deviceId}&status=active`);
      return body.data
        .map(({ kind }: { kind: string }) => kind)
        .filter((kind: string) => kind === 'backup_chain_broken');
    };
    const score = async () => {
      const { body } = await tenant.send('GET', `/backup/recovery-readiness?deviceId=${device.deviceId}`);
      return body.data.devices[0].riskFactors.map(({ code }: { code: string }) => code);
    };
    expect(await watch()).to.deep.equal([]);
    await add(3, 'log', 4);
    expect(await watch()).to.deep.equal(['backup_chain_broken']);
    expect(await score()).to.include('chain_broken');
    await add(2, 'full');
    expect(await watch()).to.deep.equal([]);
    expect(await score()).not.to.include('chain_broken');
  });

  it('are listed as the device lists them, and kept until it lists them no more', async () => {
    const listed = (given: Record<string, unknown>) => ({
      engine: 'postgresql',
      version: '15.8',
      port: 5432,
      dataFolder: '/data',
      databases: [{ name: 'it\'s "a"\nname', sizeBytes: 5 }],
      problems: [],
      ...given,
    });
    const where = `/backup/databases/instances/${device.deviceId}`;
    const instances = (answer: { body: { data: { instance: string }[] } }) =>
      answer.body.data.map(({ instance }) => instance);
    const fake = await connected(app, device);
    const ask = async (path: string, output: unknown) => {
      const asked = tenant.send('GET', path);
      const frame = await fake.nextCommand();
      expect(frame.type).to.equal('backup.databases');
      await fake.succeed(frame, output);
      return asked;
    };
    const both = { instances: [listed({ instance: '/run/a' }), listed({ instance: "/run/b'" })] };
    expect(instances(await ask(where, both))).to.deep.equal(['/run/a', "/run/b'"]);
    expect(instances(await tenant.send('GET', where))).to.have.length(2);
    const again = await ask(`${where}?refresh=true`, {
      instances: [listed({ instance: '/run/a', version: '16' })],
    });
    expect(again.body.data[0]).to.include({ instance: '/run/a', version: '16' });
    expect(again.body.data).to.have.length(1);

    // An engine whose servers could not be looked for has lost none of them.
    const failed = [{ source: listed({}).engine, message: 'The list of processes could not be read.' }];
    const unread = await ask(`${where}?refresh=true`, { instances: [], failed });
    expect(instances(unread)).to.deep.equal(['/run/a']);
    expect(unread.body.failed).to.deep.equal([{ engine: 'postgresql', message: failed[0]?.message }]);
    const reason = { unreadBecause: failed[0]?.message };
    expect(unread.body.data[0]).to.include(reason);
    const list = await tenant.send('GET', `/backup/databases/instances?deviceId=${device.deviceId}`);
    expect(list.body.data[0], 'shown to those who ask later').to.include(reason);

    // Of servers beyond those that a message takes, nothing is known: those that were listed earlier stay.
    const cut = await ask(`${where}?refresh=true`, {
      instances: [listed({ instance: '/run/b' })],
      instanceCount: 2,
    });
    expect(instances(cut)).to.deep.equal(['/run/a', '/run/b']);
    expect(cut.body.data[1]).to.include({ instanceCount: 2 });
    const whole = await ask(`${where}?refresh=true`, { instances: [listed({ instance: '/run/a' })] });
    expect(instances(whole)).to.deep.equal(['/run/a']);
    expect(whole.body.data[0]).not.to.have.any.keys('instanceCount', 'unreadBecause');
    expect(whole.body.failed).to.deep.equal([]);

    // What no device would list is refused as a whole, and changes nothing.
    const many = Array.from({ length: 20_000 }, () => ({ name: 'x', sizeBytes: -1 }));
    const absurd = await ask(`${where}?refresh=true`, {
      instances: [listed({ instance: '/run/c', databases: many })],
    });
    expect(absurd.status).to.equal(502);
    await eventually(
      () => inSystem(app, (tx) => tx('backup_database_instances').where({ device_id: device.deviceId })),
      (rows) => rows.length === 1,
    );
  });
});
