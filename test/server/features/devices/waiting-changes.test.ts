import { expect } from 'chai';
import { removeValues } from '../../../../src/features/custom-fields/custom-field.queries.ts';
import { setUpdating } from '../../../../src/features/devices/device.queries.ts';
import { writeChangedFacts } from '../../../../src/features/devices/machine-identity.queries.ts';
import { type Tx, withSystem } from '../../../../src/platform/db/transaction.ts';
import { buildDevice, buildTenant, type EnrolledDevice } from '../../../support/factories.ts';
import { meetAtRow } from '../../../support/meet-at-row.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';
import { deviceGround, type Tenant } from './devices-support.ts';

interface Change {
  name: string;
  make: (tx: Tx) => Promise<unknown>;
  /** Of the device, afterwards. */
  effect: object;
}

describe('a change of a device that waits for another one', () => {
  let app: TestApp;
  let tenant: Tenant;
  let device: EnrolledDevice;
  const { send, read, sql } = deviceGround(
    () => app,
    () => tenant.admin,
  );
  before(async () => {
    app = await sharedTestApp();
    tenant = await buildTenant(app);
  });
  after(async () => app.close());
  beforeEach(async () => {
    device = await buildDevice(app, tenant.orgId, { hostname: 'TILL' });
    await sql(`update devices set custom_fields = '{"asset": "A-1"}' where id = ?`, [device.deviceId]);
    // Without an upgrade under way, a job of the server would soon end the status "updating".
    await sql(
      `insert into device_upgrades (id, device_id, org_id, component, attempt_id, target_version, state)
      values (gen_random_uuid(), ?, ?, 'agent', gen_random_uuid(), '1.1.0', 'downloading')`,
      [device.deviceId, tenant.orgId],
    );
  });

  const changes: Change[] = [
    {
      name: 'what its machine reports',
      make: (tx) =>
        writeChangedFacts(tx, [
          { deviceId: device.deviceId, agentVersion: '9.9.9', hostname: 'DESK', hardware: {}, network: {} },
        ]),
      effect: { hostname: 'DESK', agentVersion: '9.9.9' },
    },
    {
      name: 'that it is being updated',
      make: (tx) => setUpdating(tx, [{ id: device.deviceId, isUpdating: true }]),
      effect: { status: 'updating' },
    },
    {
      name: 'the removal of a custom field',
      make: (tx) => removeValues(tx, { orgId: tenant.orgId, key: 'asset' }),
      effect: { customFields: {} },
    },
  ];

  for (const { name, make, effect } of changes) {
    it(`is made, and so are those that wait for it: ${name}`, async () => {
      const patch = async (displayName: string) => {
        const { status } = await send('PATCH', `/devices/${device.deviceId}`, { displayName });
        expect(status).to.equal(200);
      };
      await meetAtRow<unknown>(app, { table: 'devices', id: device.deviceId, column: 'tags' }, [
        () => withSystem(app.server.database.pool, 'a test', make),
        () => patch('second'),
        () => patch('third'),
      ]);
      const after = await read(device.deviceId);
      expect(after).to.deep.include(effect);
      expect(after.displayName).to.be.oneOf(['second', 'third']);
    });
  }
});
