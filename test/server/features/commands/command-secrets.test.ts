import { randomUUID } from 'node:crypto';
import { expect } from 'chai';
import { addServerCommand, createCommandLedger } from '../../../../src/features/commands/index.ts';
import type { CommandLedger } from '../../../../src/hub/ports.ts';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { createEncryptor, sealContext } from '../../../../src/platform/secrets/sealed.ts';
import type { CommandSecrets } from '../../../../src/protocol/index.ts';
import { buildDevice, buildTenant, type EnrolledDevice } from '../../../support/factories.ts';
import { createTestApp, TEST_ENCRYPTION_KEY, type TestApp } from '../../../support/test-app.ts';
import { asOwner } from '../../../support/test-postgres.ts';

describe('the secrets of commands', () => {
  const encryptor = createEncryptor({ current: TEST_ENCRYPTION_KEY, old: [] });
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let device: EnrolledDevice;
  let ledger: CommandLedger;

  before(async () => {
    app = await createTestApp();
    tenant = await buildTenant(app);
    ledger = createCommandLedger({ db: app.server.database.hubPool, nodeId: 'node-of-this-test', encryptor });
  });
  after(async () => app.close());
  beforeEach(async () => {
    device = await buildDevice(app, tenant.orgId);
  });

  const sql = <Row extends object = object>(text: string, values: unknown[] = []) =>
    asOwner<Row & Record<string, unknown>>(app.database.ownerUrl, text, values);

  /** A check of a bucket whose secret key is `ref`. */
  const add = async (ref: string, values: CommandSecrets) =>
    withSystem(app.server.database.pool, 'add a command of a test', async (tx) =>
      addServerCommand(
        tx,
        { id: device.deviceId, orgId: tenant.orgId },
        {
          type: 'backup.test-destination',
          payload: {
            destination: {
              type: 's3',
              endpoint: 'https://s3.example',
              bucket: 'backups',
              accessKey: 'key',
              secret: { secretRef: ref },
            },
            timeoutSeconds: 60,
          },
          ttlSeconds: 600,
          timeoutSeconds: 60,
          secrets: { values, encryptor },
          createdBy: null,
        },
      ),
    );
  const take = () => ledger.take([{ deviceId: device.deviceId, epoch: 1, knowsLanes: true }]);
  const stateOf = async (id: string) =>
    (await sql(`select status, error ->> 'code' as code from commands where id = $1`, [id]))[0];

  it('are sealed where they are stored, and open in the command that is sent', async () => {
    const [ref, other] = [randomUUID(), randomUUID()];
    const { id, change } = await add(ref, { [ref]: 'the-secret-key', [other]: 'another' });
    expect(change.update).to.deep.include({
      id,
      deviceId: device.deviceId,
      orgId: tenant.orgId,
      kind: 'backup.test-destination',
      state: 'queued',
      phase: 'queued',
    });
    expect(change.partnerId).to.equal(tenant.partnerId);
    const stored = await sql<{ value: string }>('select value from command_secrets where command_id = $1', [
      id,
    ]);
    expect(stored).to.have.length(2);
    expect(JSON.stringify(stored)).not.to.match(/the-secret-key|another/);

    const { dispatched } = await take();
    expect(dispatched.map((command) => ({ id: command.id, secrets: command.secrets }))).to.deep.equal([
      { id, secrets: { [ref]: 'the-secret-key', [other]: 'another' } },
    ]);
  });

  it('belong to their own command, even if another one has the same reference', async () => {
    const ref = randomUUID();
    const first = await add(ref, { [ref]: 'first' });
    const second = await add(ref, { [ref]: 'second' });
    const { dispatched } = await take();
    expect(dispatched.map(({ id, secrets }) => [id, secrets?.[ref]])).to.deep.equal([
      [first.id, 'first'],
      [second.id, 'second'],
    ]);
  });

  it('fail their command as well where only one of several is gone', async () => {
    const [ref, other] = [randomUUID(), randomUUID()];
    const { id } = await add(ref, { [ref]: 'one', [other]: 'another' });
    await sql(
      `update commands set payload = payload || jsonb_build_object('other', $2::jsonb) where id = $1`,
      [id, JSON.stringify({ secretRef: other })],
    );
    await sql('delete from command_secrets where command_id = $1 and ref = $2', [id, other]);
    const { dispatched } = await take();
    expect(dispatched).to.deep.equal([]);
    expect(await stateOf(id)).to.deep.equal({ status: 'failed', code: 'SECRET_UNAVAILABLE' });
  });

  it('that cannot be read fail their command, which is not sent, and no other one', async () => {
    const [broken, whole] = [randomUUID(), randomUUID()];
    const unreadable = await add(broken, { [broken]: 'lost' });
    await sql('update command_secrets set value = $2 where command_id = $1', [
      unreadable.id,
      createEncryptor({ current: 'another-key-than-that-of-the-server', old: [] }).seal(
        'lost',
        sealContext('command_secrets', 'value', unreadable.id),
      ),
    ]);
    const readable = await add(whole, { [whole]: 'kept' });
    const { dispatched, changed } = await take();
    expect(dispatched.map(({ id, secrets }) => [id, secrets?.[whole]])).to.deep.equal([
      [readable.id, 'kept'],
    ]);
    expect(changed.map(({ update }) => [update.id, update.state])).to.deep.include([unreadable.id, 'failed']);
    expect(await stateOf(unreadable.id)).to.deep.equal({ status: 'failed', code: 'SECRET_UNAVAILABLE' });
  });

  it('that are missing fail their command as well', async () => {
    const { id } = await add(randomUUID(), {});
    expect((await take()).dispatched).to.deep.equal([]);
    expect(await stateOf(id)).to.deep.equal({ status: 'failed', code: 'SECRET_UNAVAILABLE' });
  });

  it('end with their command', async () => {
    const ref = randomUUID();
    const { id } = await add(ref, { [ref]: 'the-secret-key' });
    await take();
    await ledger.record([
      {
        kind: 'finished',
        id,
        deviceId: device.deviceId,
        end: { status: 'succeeded', output: { checks: [] } },
      },
    ]);
    expect(await sql('select id from command_secrets where command_id = $1', [id])).to.deep.equal([]);
  });
});
