import { expect } from 'chai';
import { COMMAND_TYPES, type CommandFrame, SECRETS_CAPABILITY } from '../../../../src/protocol/index.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { eventually } from '../../eventually.ts';
import { buildDevice, type EnrolledDevice } from '../../factories.ts';
import { connectDevice, type FakeDevice } from '../../fake-device.ts';
import type { TestApp } from '../../test-app.ts';
import type { BackupTenant } from '../backup-support.ts';
import { inSystem } from '../store-support.ts';

/** A device with a repository whose snapshots are rows only, so that no engine is needed, and a vault on its disk. */
export async function buildVaultDevice(app: TestApp, tenant: BackupTenant, configId: string) {
  const enrolled = await buildDevice(app, tenant.orgId);
  const { deviceId } = enrolled;
  const sourceId = newId();
  await inSystem(app, (tx) =>
    tx('backup_repositories').insert({
      id: sourceId,
      org_id: tenant.orgId,
      device_id: deviceId,
      config_id: configId,
      encryption_key_id: tenant.keyId,
      key_version: 1,
      initialized_at: new Date(),
    }),
  );
  const vault = await tenant.send('POST', '/backup/vault', {
    deviceId,
    provider: 'local',
    details: { path: '/mnt/vault' },
  });
  expect(vault.status, JSON.stringify(vault.body)).to.equal(201);
  const vaultId: string = vault.body.id;
  return {
    ...enrolled,
    sourceId,
    vaultId,
    copiesId: String(vault.body.repositoryId),
    /** A snapshot that arrived so many hours ago. Answers the id of the engine. */
    async addSnapshot(hoursAgo: number, more: Record<string, unknown> = {}): Promise<string> {
      const engineId = engineIdOf(newId());
      await inSystem(app, (tx) =>
        tx('backup_snapshots').insert({
          id: newId(),
          org_id: tenant.orgId,
          device_id: deviceId,
          config_id: configId,
          repository_id: sourceId,
          engine_id: engineId,
          received_at: new Date(Date.now() - hoursAgo * 3_600_000),
          ...more,
        }),
      );
      return engineId;
    },
    status: async () => (await tenant.send('GET', `/backup/vault/${vaultId}/status`)).body.data,
    sync: (body: object = {}) => tenant.send('POST', `/backup/vault/${vaultId}/sync`, body),
    ended: () =>
      eventually(
        async () => (await tenant.send('GET', `/backup/vault/${vaultId}/status`)).body.data,
        ({ syncs: [newest] }) => newest?.finishedAt != null,
        20_000,
      ),
  };
}
export type VaultDevice = Awaited<ReturnType<typeof buildVaultDevice>>;

export const ABLE = [...COMMAND_TYPES, SECRETS_CAPABILITY];

export async function connected(
  app: TestApp,
  { deviceId, token }: EnrolledDevice,
  capabilities: readonly string[] = ABLE,
): Promise<FakeDevice> {
  const device = await connectDevice(app, token, { capabilities: [...capabilities] });
  await eventually(
    () => inSystem(app, (tx) => tx('device_presence').where({ device_id: deviceId, state: 'connected' })),
    (rows) => rows.length === 1,
  );
  return device;
}

/** Adds the syncs of vaults that are due, as the server does every minute. */
export const runVaultSchedules = (app: TestApp) =>
  inSystem(app, (tx) =>
    tx.raw(
      `select enqueue_job(gen_random_uuid(), 'backup.vault-schedules', null, null, '{}', null, 0, 3600, 3)`,
    ),
  );

export const engineIdOf = (id: string) => id.replaceAll('-', '').padEnd(64, '0');

export interface SyncPayload {
  syncId: string;
  snapshotIds: string[];
  source: { destination: { type: string; user: string; path: string; secret: { secretRef: string } } };
  vault: { destination: { type: string; path: string }; isNew?: boolean };
}
export const payloadOf = ({ payload }: CommandFrame) => payload as SyncPayload;

/** What a device reports that has copied everything. */
export const copiesOf = (frame: CommandFrame) => ({
  copies: payloadOf(frame).snapshotIds.map((source) => ({ source, copy: copyIdOf(source) })),
  seconds: 1,
});
export const copyIdOf = (source: string) => source.slice(0, 60) + 'c0de';
