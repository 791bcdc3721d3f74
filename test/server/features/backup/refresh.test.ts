import { expect } from 'chai';
import { refreshAll } from '../../../../src/features/machine-recovery/vm-restore.work.ts';
import type { DeviceHub } from '../../../../src/hub/index.ts';
import type { CommandOutput } from '../../../../src/protocol/index.ts';
import { buildDevice, buildTenant, type EnrolledDevice } from '../../../support/factories.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';
import { asOwner } from '../../../support/test-postgres.ts';

describe('what hosts say of the machines that run from snapshots', () => {
  let app: TestApp;
  let host: EnrolledDevice;
  before(async () => {
    app = await sharedTestApp();
    host = await buildDevice(app, (await buildTenant(app)).orgId);
  });

  const sql = <Row extends object>(text: string, values: unknown[]) =>
    asOwner<Row>(app.database.ownerUrl, text, values);
  async function running(): Promise<string> {
    const [row] = await sql<{ id: string }>(
      `insert into backup_vm_restores (id, org_id, device_id, kind, hypervisor, vm_name, spec, status, operation,
        is_operating, command_id, holds_snapshot, expires_at, updated_at)
      values (gen_random_uuid(), $1, $2, 'instant_boot', 'kvm', 'A', '{}', 'active', 'boot', false, gen_random_uuid(), false,
        now() + interval '1 day', now() - interval '1 minute') returning id`,
      [host.orgId, host.deviceId],
    );
    return row!.id;
  }
  const statusOf = async (id: string) =>
    (await sql<{ status: string }>('select status from backup_vm_restores where id = $1', [id]))[0]?.status;
  /** Every host has the same answer; the other hosts of the database have none of these machines. */
  const hear = (output: CommandOutput<'backup.vm-boots'>) => {
    const query = (deviceId: string) =>
      Promise.resolve(deviceId === host.deviceId ? { ok: true, output } : { ok: false });
    return refreshAll(
      { db: app.server.database.jobPool, hub: { query } as unknown as DeviceHub },
      new AbortController().signal,
    );
  };

  it('ends a machine that its host does not list, and none if the list was cut', async () => {
    const id = await running();
    await hear({ boots: [], isCut: true });
    expect(await statusOf(id)).to.equal('active');
    await hear({ boots: [] });
    expect(await statusOf(id)).to.equal('failed');
  });
});
