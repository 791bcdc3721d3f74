import { expect } from 'chai';
import { raiseAlert } from '../../../../src/features/alerts/index.ts';
import {
  findDuePrune,
  findOutdated,
  findProtected,
  markRemoved,
} from '../../../../src/features/backup/retention.service.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { type BackupTenant, buildBackupTenant } from '../../../support/backup/backup-support.ts';
import { inSystem } from '../../../support/backup/store-support.ts';
import {
  buildVaultDevice,
  engineIdOf,
  type VaultDevice,
} from '../../../support/backup/vaults/vault-support.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';

/** Which snapshots retention removes, and which nothing may remove. restic itself is left out: snapshots are rows. */

const DAY_MS = 86_400_000;
const DAYS = 24;
const inDays = (days: number) => new Date(Date.now() + days * DAY_MS);
/** Of a PostgreSQL server, at a position that grows with time. */
const database = (backupType: 'full' | 'log', daysAgo: number, since = daysAgo) => {
  const position = (days: number) => `0/${(0x10000000 - days * 0x1000).toString(16).toUpperCase()}`;
  return {
    backup_type: 'database',
    details: JSON.stringify({
      kind: 'database',
      engine: 'postgresql',
      instance: '/run/a',
      databases: ['shop'],
      backupType,
      version: '15.8',
      from: position(since),
      to: position(daysAgo),
      branch: '1/1',
      basedOn: null,
      recoverableFrom: backupType === 'full' ? inDays(-daysAgo).toISOString() : null,
      recoverableTo: inDays(-daysAgo).toISOString(),
    }),
  };
};

describe('what retention removes', () => {
  let app: TestApp;
  let tenant: BackupTenant;
  let configId: string;
  let device: VaultDevice;

  before(async () => {
    app = await sharedTestApp();
    tenant = await buildBackupTenant(app);
  });
  after(async () => app.close());
  beforeEach(async () => {
    ({ id: configId } = await tenant.createConfig({ name: newId(), retention: { keepLast: 1 } }));
    device = await buildVaultDevice(app, tenant, configId);
  });

  const db = () => app.server.database.pool;
  const add = (daysAgo: number, more: Record<string, unknown> = {}) =>
    device.addSnapshot(daysAgo * DAYS, { job_id: newId(), ...more });
  const change = (engineId: string, values: Record<string, unknown>) =>
    inSystem(app, (tx) => tx('backup_snapshots').where({ engine_id: engineId }).update(values));
  /** A copy in the vault of the device, which has arrived now. */
  const addCopy = async (source: string, more: Record<string, unknown> = {}) => {
    const engineId = engineIdOf(newId());
    await inSystem(app, async (tx) => {
      const { id } = await tx('backup_snapshots').where({ engine_id: source }).first('id');
      await tx('backup_snapshots').insert({
        id: newId(),
        org_id: tenant.orgId,
        device_id: device.deviceId,
        repository_id: device.copiesId,
        engine_id: engineId,
        copy_of: id,
        received_at: new Date(),
        ...more,
      });
    });
    return engineId;
  };
  const outdated = async (repositoryId = device.sourceId) =>
    (await findOutdated(db(), repositoryId)).map(({ engineId }) => engineId);
  const remove = async () => markRemoved(db(), device.sourceId, await findOutdated(db(), device.sourceId));
  const due = async () => (await findDuePrune(db(), device.sourceId))?.map(({ engineId }) => engineId);
  const alert = (kind: string) =>
    inSystem(app, (tx) =>
      raiseAlert(tx, {
        orgId: tenant.orgId,
        deviceId: device.deviceId,
        kind,
        severity: 'critical',
        title: 't',
        message: 'm',
      }),
    );

  it('is what the policy of the configuration does not keep, and has not gone before', async () => {
    const old = await add(40);
    const gone = await add(41, { removed_at: new Date() });
    await add(0);
    expect(await outdated()).to.deep.equal([old]);
    expect(gone).not.to.equal(old);
    expect(await outdated(newId()), 'a repository that is not there').to.deep.equal([]);
    await inSystem(app, (tx) =>
      tx('backup_repositories').where({ id: device.sourceId }).update({ config_id: null }),
    );
    expect(await outdated(), 'without its configuration').to.deep.equal([]);
  });

  it('are of a vault the copies whose snapshots are beyond the newest, by when these arrived', async () => {
    const sources = [await add(40), await add(30), await add(20)];
    const copies = [];
    for (const source of [...sources].reverse()) copies.unshift(await addCopy(source));
    await tenant.send('PATCH', `/backup/vault/${device.vaultId}`, { retentionCount: 1 });
    expect(await outdated(device.copiesId)).to.have.members([copies[0], copies[1]]);
    await change(sources[0] ?? '', { legal_hold: true });
    expect(await outdated(device.copiesId), 'of a snapshot on hold').to.deep.equal([copies[1]]);
    await change(copies[1] ?? '', { in_use: true });
    expect(await outdated(device.copiesId), 'that a machine reads').to.deep.equal([]);
  });

  for (const kind of ['backup_size_drop', 'backup_empty']) {
    it(`is nothing while the alert ${kind} is not explained, in a repository and in a vault`, async () => {
      const sources = [await add(40), await add(30)];
      const copy = await addCopy(sources[0] ?? '');
      await addCopy(sources[1] ?? '');
      await tenant.send('PATCH', `/backup/vault/${device.vaultId}`, { retentionCount: 1 });
      expect([await outdated(), await outdated(device.copiesId)]).to.deep.equal([[sources[0]], [copy]]);
      await alert('backup_failed');
      expect([await outdated(), await outdated(device.copiesId)]).to.deep.equal([[sources[0]], [copy]]);
      await alert(kind);
      expect([await outdated(), await outdated(device.copiesId)]).to.deep.equal([[], []]);
    });
  }

  it('is not what a person or a machine holds, also since it was decided', async () => {
    const [held, used, kept, old] = [await add(60), await add(50), await add(45), await add(40)];
    await add(0);
    const decided = await findOutdated(db(), device.sourceId);
    expect(decided).to.have.length(4);
    await change(held, { legal_hold: true });
    await change(used, { in_use: true });
    await change(kept, { immutable_until: inDays(1) });
    expect(await markRemoved(db(), device.sourceId, decided)).to.equal(1);
    expect(await due()).to.deep.equal([old]);
    const { removed_because: because } = await inSystem(app, (tx) =>
      tx('backup_snapshots').where({ engine_id: old }).first('removed_because'),
    );
    expect(because).to.equal('retention');
  });

  it('is not what a snapshot needs on which a hold was put since it was decided', async () => {
    const full = await add(40, database('full', 40));
    const log = await add(39, database('log', 39, 40));
    await add(30, database('full', 30));
    const decided = await findOutdated(db(), device.sourceId);
    expect(decided.map(({ engineId }) => engineId)).to.have.members([full, log]);
    await change(log, { legal_hold: true });
    expect(await markRemoved(db(), device.sourceId, decided)).to.equal(0);
    expect(await due()).to.equal(undefined);
  });

  it('is pruned since the first removal, even if others follow before the prune', async () => {
    const [first, second] = [await add(50), await add(40)];
    await change(second, { legal_hold: true });
    await add(0);
    expect(await remove()).to.equal(1);
    await change(second, { legal_hold: false });
    await inSystem(app, async (tx) => {
      const anHourAgo = new Date(Date.now() - 3_600_000);
      await tx('backup_snapshots').where({ engine_id: first }).update({ removed_at: anHourAgo });
      await tx('backup_repositories').where({ id: device.sourceId }).update({ prune_due_since: anHourAgo });
    });
    expect(await remove()).to.equal(1);
    expect(await due()).to.have.members([first, second]);
  });

  it('is of one repository only', async () => {
    const old = await add(40);
    await add(0);
    const decided = await findOutdated(db(), device.sourceId);
    expect(await markRemoved(db(), device.copiesId, decided)).to.equal(0);
    expect(await outdated()).to.deep.equal([old]);
    expect(await markRemoved(db(), device.sourceId, [])).to.equal(0);
  });

  it('may not be what is on hold or immutable, by itself or by the policy, or what that needs', async () => {
    const full = await add(60, database('full', 60));
    const log = await add(59, database('log', 59, 60));
    const other = await add(58, database('full', 58));
    const asked = [full, log, other, engineIdOf(newId())];
    const protectedOnes = () => findProtected(db(), device.sourceId, asked);
    expect(await protectedOnes()).to.deep.equal([]);
    await change(log, { legal_hold: true });
    expect(await protectedOnes()).to.have.members([full, log]);
    expect(await findProtected(db(), device.sourceId, [full]), 'of those that are asked for').to.deep.equal([
      full,
    ]);
    await change(log, { legal_hold: false, immutable_until: inDays(1) });
    expect(await protectedOnes()).to.have.members([full, log]);
    await change(log, { immutable_until: inDays(-1) });
    expect(await protectedOnes()).to.deep.equal([]);
    const policy = { keepLast: 1, immutableDays: 59 };
    const patched = await tenant.send('PATCH', `/backup/configs/${configId}`, { retention: policy });
    expect(patched.status, JSON.stringify(patched.body)).to.equal(200);
    expect(await protectedOnes(), 'by the policy').to.deep.equal([other]);
    await change(other, { removed_at: new Date() });
    expect(await protectedOnes(), 'that are gone').to.deep.equal([]);
  });
});
