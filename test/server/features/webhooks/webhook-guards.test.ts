import { expect } from 'chai';
import {
  claimWebhooks,
  failDelivery,
  fanOut,
  recordDeliveryAttempt,
  recordWebhookAttempt,
} from '../../../../src/features/webhooks/webhook.queries.ts';
import type { Outcome } from '../../../../src/features/webhooks/post.ts';
import { type Db, openPool } from '../../../../src/platform/db/pool.ts';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { asOwner, createTestDatabase, type TestDatabase } from '../../../support/test-postgres.ts';

const OK: Outcome = {
  ok: true,
  responseStatus: 204,
  responseExcerpt: null,
  durationMs: 1,
  error: null,
  retryAfterMs: 0,
};

describe('the guards of webhooks', () => {
  // Without a server, which would serve the webhooks itself.
  let database: TestDatabase;
  let db: Db;
  let partnerId: string;
  let orgId: string;
  before(async () => {
    database = await createTestDatabase();
    db = openPool(database.appUrl, { max: 3, name: 'test-webhooks', acquireMs: 1000 });
  });
  after(async () => {
    await db.destroy();
    await database.drop();
  });
  beforeEach(async () => {
    [partnerId, orgId] = [newId(), newId()];
    await sql('truncate webhooks, webhook_events, webhook_deliveries');
    await sql(
      `insert into partners (id, name, slug, type, plan, status) values ($1, 'P', $2, 'msp', 'free', 'active')`,
      [partnerId, partnerId],
    );
    await sql(`insert into organizations (id, partner_id, name, slug) values ($1, $2, 'O', 'o')`, [
      orgId,
      partnerId,
    ]);
  });

  const sql = <Row extends object>(text: string, values: unknown[] = []) =>
    asOwner<Row & Record<string, unknown>>(database.ownerUrl, text, values);
  async function webhook(ofOrganization: boolean, more: Record<string, string> = {}): Promise<string> {
    const id = newId();
    const row = { due_at: `now() - interval '1 second'`, ...more };
    await sql(
      `insert into webhooks (id, partner_id, org_id, name, url, event_types, sealed_secret, ${Object.keys(row).join(', ')})
      values ($1, $2, $3, $4, 'https://192.0.2.1', '{alert.raised}', 's', ${Object.values(row).join(', ')})`,
      [id, partnerId, ofOrganization ? orgId : null, id],
    );
    return id;
  }
  async function event(): Promise<string> {
    const id = newId();
    await sql(
      `insert into webhook_events (id, partner_id, org_id, type, data) values ($1, $2, $3, 'alert.raised', '{}')`,
      [id, partnerId, orgId],
    );
    return id;
  }
  const claimed = async () => (await claimWebhooks(db, { free: 9, leaseMs: 60_000 })).map(({ id }) => id);

  it('are served when they are due, and are neither paused nor off nor served already', async () => {
    const due = await webhook(true, {
      paused_until: `now() - interval '1 second'`,
      lease_until: `now() - interval '1 second'`,
    });
    const later = `now() + interval '1 hour'`;
    await webhook(true, { due_at: later });
    await webhook(true, { due_at: 'null' });
    await webhook(true, { enabled: 'false' });
    await webhook(true, { paused_until: later });
    await webhook(true, { lease_until: later });
    expect(await claimed()).to.deep.equal([due]);
    expect(await claimed(), 'they are leased now').to.deep.equal([]);
  });

  for (const [which, ofOrganization, change] of [
    ['a suspended organization', true, `update organizations set status = 'suspended'`],
    ['a deleted organization', true, `update organizations set deleted_at = now()`],
    ['a suspended partner', false, `update partners set status = 'suspended'`],
    ['a deleted partner', false, `update partners set deleted_at = now()`],
  ] as const) {
    it(`of ${which} are not served`, async () => {
      const id = await webhook(ofOrganization);
      await sql(change);
      expect(await claimed()).to.deep.equal([]);
      await sql(`update organizations set status = 'active', deleted_at = null`);
      await sql(`update partners set status = 'active', deleted_at = null`);
      expect(await claimed()).to.deep.equal([id]);
    });
  }

  it('of one partner are served eight at a time, and those that are paused take no place', async () => {
    const early = { due_at: `now() - interval '1 hour'` };
    for (let n = 0; n < 8; n++) await webhook(true, { ...early, paused_until: `now() + interval '1 hour'` });
    const due = await webhook(true);
    expect(await claimed()).to.deep.equal([due]);
    for (let n = 0; n < 9; n++) await webhook(true);
    expect(await claimed()).to.have.lengthOf(7);
    expect(await claimed()).to.deep.equal([]);
  });

  it('that another server is changing at this moment are left to it', async () => {
    const [held, free] = [await webhook(true), await webhook(true)];
    await withSystem(db, 'another server', async (tx) => {
      await tx('webhooks').where({ id: held }).forUpdate();
      expect(await claimed()).to.deep.equal([free]);
    });
    expect(await claimed()).to.deep.equal([held]);
  });

  for (const [what, change, count] of [
    ['a suspended organization', `update organizations set status = 'suspended'`, 0],
    ['a deleted organization', `update organizations set deleted_at = now()`, 0],
    ['an active one', `select`, 1],
  ] as const) {
    it(`of the partner get ${count === 0 ? 'no events' : 'the events'} of ${what}`, async () => {
      await webhook(false);
      await event();
      await sql(change);
      await fanOut(db);
      expect(await sql('select from webhook_deliveries')).to.have.lengthOf(count);
      expect(await sql('select from webhook_events where fanned_out_at is null')).to.have.lengthOf(0);
      await fanOut(db);
      expect(await sql('select from webhook_deliveries'), 'each event once').to.have.lengthOf(count);
    });
  }

  it('leave events that another server is adding to it', async () => {
    await webhook(false);
    const id = await event();
    await withSystem(db, 'another server', async (tx) => {
      await tx('webhook_events').where({ id }).forUpdate();
      await fanOut(db);
      expect(await sql('select from webhook_deliveries')).to.have.lengthOf(0);
    });
    await fanOut(db);
    expect(await sql('select from webhook_deliveries')).to.have.lengthOf(1);
  });

  it('begin anew with a success, whose time they keep', async () => {
    const id = await webhook(false, {
      failures: '3',
      failing_since: 'now()',
      paused_until: 'now()',
      last_success_at: `now() - interval '1 day'`,
    });
    const other = await webhook(false, { failures: '2' });
    const attempted = {
      deliveryId: newId(),
      eventId: newId(),
      webhookId: id,
      attempts: 0,
      eventOrgId: null,
    };
    await withSystem(db, 'a test', (tx) => recordWebhookAttempt(tx, attempted, OK));
    const [row] = await sql(
      `select failures, failing_since, paused_until, last_success_at > now() - interval '1 minute' as is_new
      from webhooks where id = $1`,
      [id],
    );
    expect(row).to.deep.equal({ failures: 0, failing_since: null, paused_until: null, is_new: true });
    expect(await sql('select failures from webhooks where id = $1', [other])).to.deep.equal([
      { failures: 2 },
    ]);
  });

  it('keep how a delivery has ended, whatever comes later', async () => {
    const webhookId = await webhook(false);
    const eventId = await event();
    await fanOut(db);
    const [{ id: deliveryId } = { id: '' }] = await sql<{ id: string }>('select id from webhook_deliveries');
    const attempted = { deliveryId, eventId, webhookId, attempts: 0, eventOrgId: null };
    const record = (outcome: Outcome) =>
      withSystem(db, 'a test', (tx) => recordDeliveryAttempt(tx, attempted, outcome));
    await record(OK);
    await record({ ...OK, ok: false, responseStatus: 500 });
    expect(await sql('select status, response_status from webhook_deliveries')).to.deep.equal([
      { status: 'delivered', response_status: 204 },
    ]);
  });

  it('end a delivery that cannot be sent, and no other', async () => {
    await webhook(false);
    const [broken] = [await event(), await event()];
    await fanOut(db);
    const [{ id } = { id: '' }] = await sql<{ id: string }>(
      'select id from webhook_deliveries where event_id = $1',
      [broken],
    );
    await failDelivery(db, { id, eventId: broken }, 'It cannot be sent.');
    const stored = await sql('select event_id = $1 as is_broken, status, error from webhook_deliveries', [
      broken,
    ]);
    expect(stored).to.have.deep.members([
      { is_broken: true, status: 'failed', error: 'It cannot be sent.' },
      { is_broken: false, status: 'pending', error: null },
    ]);
  });
});
