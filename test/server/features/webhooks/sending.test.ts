import { expect } from 'chai';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { Webhook } from '../../../../src/features/webhooks/webhook.model.ts';
import { releaseWebhook } from '../../../../src/features/webhooks/webhook.queries.ts';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { eventually } from '../../../support/eventually.ts';
import { createTestApp } from '../../../support/test-app.ts';
import { type Received, webhookGround } from '../../../support/webhooks/webhook-support.ts';

/** Whether one of the signatures is that of the secret: by the Web Crypto API, as a receiver elsewhere would do it. */
async function isSignedWith(secret: string, { id, timestamp, text, signatures }: Received): Promise<boolean> {
  const raw = Uint8Array.from(atob(secret.replace('whsec_', '')), (character) => character.charCodeAt(0));
  const key = await crypto.subtle.importKey('raw', raw, { name: 'HMAC', hash: 'SHA-256' }, false, ['verify']);
  const signed = new TextEncoder().encode(`${id}.${timestamp}.${text}`);
  for (const signature of signatures) {
    const [version, value = ''] = signature.split(',');
    const bytes = Uint8Array.from(atob(value), (character) => character.charCodeAt(0));
    if (version === 'v1' && (await crypto.subtle.verify('HMAC', key, bytes, signed))) return true;
  }
  return false;
}

describe('webhook deliveries', () => {
  let ground: Awaited<ReturnType<typeof webhookGround>>;

  before(async () => {
    ground = await webhookGround();
  });
  after(async () => ground.close());
  afterEach(() => ground.sql('delete from webhooks'));

  const arrivals = (path: string, count: number) =>
    eventually(
      () => ground.receiver.at(path),
      (got) => got.length >= count,
    );

  it('are signed with the secret, and with the old one as well while it is valid', async () => {
    const { receiver, call, raise } = ground;
    const { id, secret } = await ground.webhook('signed');
    const alertId = await raise();
    const [first] = await arrivals('/signed', 1);
    expect(first!.body).to.deep.include({ id: first!.id, type: 'alert.raised', orgId: ground.tenant.orgId });
    expect(first!.body.data).to.deep.include({ alertId, severity: 'low', status: 'active', deviceId: null });
    expect(Math.abs(Number(first!.timestamp) - Date.now() / 1000)).to.be.below(60);
    expect(await isSignedWith(secret, first!)).to.equal(true);
    expect(await isSignedWith(secret, { ...first!, text: `${first!.text} ` })).to.equal(false);

    const rotated = (await call('POST', `/webhooks/${id}/rotate-secret`, {})).body;
    expect(rotated.secret).not.to.equal(secret);
    await raise();
    const [, second] = await arrivals('/signed', 2);
    expect(second!.signatures).to.have.length(2);
    for (const one of [secret, rotated.secret]) expect(await isSignedWith(one, second!)).to.equal(true);

    const last = (await call('POST', `/webhooks/${id}/rotate-secret`, { overlapHours: 0 })).body;
    await raise();
    const [, , third] = await arrivals('/signed', 3);
    expect(await isSignedWith(last.secret, third!)).to.equal(true);
    for (const one of [secret, rotated.secret]) expect(await isSignedWith(one, third!)).to.equal(false);
    expect(new Set(receiver.at('/signed').map((one) => one.id)).size).to.equal(3);
  });

  it('are tried again with the same id, until the receiver takes them', async () => {
    const { receiver, hasten, delivery } = ground;
    const { id } = await ground.webhook('unwell');
    receiver.status('/unwell', 500);
    await ground.raise();
    const waiting = await delivery(id, ({ attempts }) => attempts === 1);
    expect(waiting).to.include({ status: 'pending', responseStatus: 500 });
    expect(waiting.error).to.equal('The receiver answered 500.');
    await hasten();
    await delivery(id, ({ attempts }) => attempts === 2);
    receiver.answer('/unwell', (response) => response.end('thanks'));
    await hasten();
    const done = await delivery(id, ({ status }) => status === 'delivered');
    expect(done).to.include({ attempts: 3, responseStatus: 200, error: null });
    expect(new Set(receiver.at('/unwell').map((one) => one.id))).to.deep.equal(new Set([done.eventId]));
    const { body } = await ground.call('GET', `/webhooks/${id}/deliveries/${done.id}`);
    expect(body.responseExcerpt).to.equal('thanks');
    expect((await ground.call('GET', `/webhooks/${id}`)).body).to.include({ status: 'active', failures: 0 });
  });

  it('that succeed end the count of failures, also shortly after another success', async () => {
    const { receiver, call, delivery } = ground;
    const { id } = await ground.webhook('flaky');
    await ground.raise();
    await delivery(id, ({ status }) => status === 'delivered');
    receiver.status('/flaky', 500);
    await ground.raise();
    await delivery(id, ({ attempts, status }) => attempts === 1 && status === 'pending');
    const failing = (await call('GET', `/webhooks/${id}`)).body;
    expect(failing).to.include({ status: 'failing', failures: 1 });
    expect(failing.failingSince).to.not.equal(null);
    receiver.status('/flaky', 200);
    await ground.hasten();
    await delivery(id, ({ attempts, status }) => attempts === 2 && status === 'delivered');
    expect((await call('GET', `/webhooks/${id}`)).body).to.include({
      status: 'active',
      failures: 0,
      failingSince: null,
    });
  });

  it('are left to the server that has taken the webhook since, by one whose lease is over', async () => {
    const { id } = await ground.webhook('leased');
    const lease = (until: string) =>
      ground.sql<{ lease_id: string }>(
        `update webhooks set lease_id = gen_random_uuid(), lease_until = now() + $2::interval where id = $1
        returning lease_id`,
        [id, until],
      );
    const { pool } = ground.app.server.database;
    await lease('-1 s');
    const over = await withSystem(pool, 'test', (tx) => Webhook.query(tx).findById(id).throwIfNotFound());
    const [next] = await lease('1 hour');
    await releaseWebhook(pool, over);
    expect(await ground.sql('select lease_id from webhooks where id = $1', [id])).to.deep.equal([next]);
    await releaseWebhook(pool, Object.assign(over, { leaseId: next!.lease_id }));
    expect(await ground.sql('select lease_id from webhooks where id = $1', [id])).to.deep.equal([
      { lease_id: null },
    ]);
  });

  it('end after the last attempt, and can be replayed one by one or for a span of time', async () => {
    const { receiver, call, delivery } = ground;
    const { id } = await ground.webhook('replayed');
    receiver.status('/replayed', 503);
    await ground.raise();
    await delivery(id, ({ attempts }) => attempts === 1);
    await ground.sql(`update webhook_deliveries set attempts = 10 where webhook_id = $1`, [id]);
    const pending = await delivery(id, () => true);
    const replay = `/webhooks/${id}/deliveries/${pending.id}/replay`;
    expect((await call('POST', replay)).status).to.equal(409);
    await ground.hasten();
    const failed = await delivery(id, ({ status }) => status === 'failed');
    expect(failed.attempts).to.equal(11);

    receiver.status('/replayed', 200);
    expect((await call('POST', replay)).body).to.include({ isReplay: true, eventId: failed.eventId });
    await delivery(id, ({ status, isReplay }) => isReplay && status === 'delivered');

    const span = { from: '2026-01-01', to: '2099-01-01' };
    const counted = async (more: object) =>
      (await call('POST', `/webhooks/${id}/replay`, { ...span, ...more })).body.replayed;
    expect(await counted({ eventTypes: ['device.created'] })).to.equal(0);
    expect(await counted({})).to.equal(1);
    await eventually(
      () => receiver.at('/replayed').filter((one) => one.id === failed.eventId).length,
      (times) => times === 4,
    );
    await delivery(id, ({ status }) => status === 'delivered');
    expect(await counted({ from: '2098-01-01' })).to.equal(0);
    expect((await call('POST', `/webhooks/${id}/replay`, { from: span.to, to: span.from })).status).to.equal(
      400,
    );
  });

  it('say why they are not sent if the secret cannot be opened, and go on when there is a new one', async () => {
    const { call, raise, delivery, hasten, sql } = ground;
    const { id } = await ground.webhook('broken');
    const { id: other } = await ground.webhook('sound');
    await sql(
      `update webhooks set sealed_secret = (select sealed_secret from webhooks where id = $1) where id = $2`,
      [other, id],
    );
    await raise();
    await arrivals('/sound', 1);
    const { error, attempts } = await delivery(id, (one) => one.attempts > 0);
    expect(error).to.match(/secret/);
    expect(attempts).to.equal(1);
    const ping = await call('POST', `/webhooks/${id}/test`, {});
    expect(ping.body.error, JSON.stringify(ping.body)).to.match(/secret/);
    expect((await call('POST', `/webhooks/${id}/rotate-secret`, {})).status).to.equal(200);
    await hasten();
    await arrivals('/broken', 1);
  });

  it('obey Retry-After', async () => {
    const { id } = await ground.webhook('busy');
    ground.receiver.status('/busy', 429, { 'retry-after': '7200' });
    await ground.raise();
    await ground.delivery(id, ({ attempts }) => attempts === 1);
    expect((await ground.call('GET', `/webhooks/${id}`)).body.status).to.equal('paused');
    const [wait] = await ground.sql<{ next: number; pause: number }>(
      `select extract(epoch from d.next_attempt_at - now())::float as next,
        extract(epoch from w.paused_until - now())::float as pause
      from webhook_deliveries d join webhooks w on w.id = d.webhook_id where w.id = $1`,
      [id],
    );
    for (const seconds of [wait!.next, wait!.pause]) expect(seconds).to.be.within(7000, 7200);
    // Nothing new is sent to it either.
    await ground.raise();
    await eventually(
      () => ground.deliveriesOf(id),
      (list) => list.length === 2,
    );
    await ground.app.settle();
    expect(ground.receiver.at('/busy')).to.have.length(1);
  });

  it('stop with 410 Gone, or when nothing was delivered for days: the webhook is disabled, and an alert says so', async () => {
    const { receiver, call } = ground;
    const alerts = async () =>
      (await call('GET', '/alerts?kind=webhook_disabled&status=active')).body.data as { message: string }[];
    const gone = await ground.webhook('gone');
    receiver.status('/gone', 410);
    await ground.raise();
    await eventually(alerts, (list) => list.length === 1);
    const shown = (await call('GET', `/webhooks/${gone.id}`)).body;
    expect(shown).to.include({ enabled: false, status: 'disabled_by_server', disabledReason: 'gone' });
    const refused = await ground.delivery(gone.id, ({ status }) => status === 'failed');
    expect(refused.error).to.equal('The receiver answered 410.');
    expect(
      (await call('POST', `/webhooks/${gone.id}/replay`, { from: '2026-01-01', to: '2099-01-01' })).status,
    ).to.equal(409);

    const failing = await ground.webhook('failing');
    receiver.status('/failing', 500);
    await ground.sql(`update webhooks set failing_since = now() - interval '73 hours' where id = $1`, [
      failing.id,
    ]);
    await ground.raise();
    await eventually(
      async () => (await call('GET', `/webhooks/${failing.id}`)).body.disabledReason,
      (reason) => reason === 'failing',
    );
    await ground.delivery(failing.id, ({ status }) => status === 'failed');
    expect((await call('PATCH', `/webhooks/${gone.id}`, { enabled: true })).body.disabledReason).to.equal(
      null,
    );
    // The other one still has the alert.
    expect(await alerts()).to.have.length(1);
    expect((await call('DELETE', `/webhooks/${failing.id}`)).status).to.equal(200);
    expect(await alerts()).to.deep.equal([]);
  });

  it('leave nothing to a bad receiver: it hangs, redirects inside, or sends ten megabytes', async () => {
    const { receiver, delivery } = ground;
    const [hanging, inside, large, packed] = [
      await ground.webhook('hanging'),
      await ground.webhook('inside'),
      await ground.webhook('large'),
      await ground.webhook('packed'),
    ];
    const hung: (() => void)[] = [];
    receiver.answer('/hanging', (response) => void hung.push(() => response.destroy()));
    receiver.status('/inside', 307, { location: receiver.url('/secret').replace('127.0.0.1', '127.0.0.2') });
    let wasCut = false;
    receiver.answer('/large', async (response) => {
      response.on('close', () => (wasCut = !response.writableFinished));
      response.writeHead(200, { 'content-length': 10_000_000 });
      for (let n = 0; n < 1000 && !response.destroyed; n++) {
        if (!response.write('x\u0000'.repeat(5000))) await delay(1);
      }
      response.end();
    });
    receiver.answer('/packed', (response) =>
      response.writeHead(200, { 'content-encoding': 'gzip' }).end('odd'),
    );
    await ground.raise();
    await eventually(
      () => hung,
      (list) => list.length === 1,
    );
    const redirected = await delivery(inside.id, ({ attempts }) => attempts === 1);
    expect(redirected).to.include({ status: 'pending', responseStatus: null });
    expect(redirected.error).to.include('redirects');
    expect(receiver.at('/secret')).to.deep.equal([]);
    const long = await delivery(large.id, ({ status }) => status === 'delivered');
    const { body } = await ground.call('GET', `/webhooks/${large.id}/deliveries/${long.id}`);
    expect(body.responseExcerpt)
      .to.have.length(1022)
      .and.match(/^(x\ufffd)+x…$/);
    await eventually(
      () => wasCut,
      (isCut) => isCut,
    );
    await delivery(packed.id, ({ status }) => status === 'delivered');
    // All of that while the first one still hangs. A receiver that closes the connection has failed.
    expect((await ground.deliveriesOf(hanging.id))[0]).to.include({ status: 'pending', attempts: 0 });
    for (const end of hung) end();
    await delivery(hanging.id, ({ attempts }) => attempts === 1);
  });

  it('are made by one of several servers, each once', async () => {
    const second = await createTestApp({ ...ground.settings, database: ground.app.database });
    const webhooks = await Promise.all(['a', 'b', 'c'].map((name) => ground.webhook(`shared-${name}`)));
    const events = 20;
    for (let n = 0; n < events; n += 10) await Promise.all(Array.from({ length: 10 }, () => ground.raise()));
    for (const [n, { id }] of webhooks.entries()) {
      const list: { status: string }[] = await eventually(
        () => ground.deliveriesOf(id),
        (all) => all.length === events && all.every((one: { status: string }) => one.status === 'delivered'),
      );
      expect(list).to.have.length(events);
      const got = ground.receiver.at(`/shared-${'abc'[n]}`);
      expect(got).to.have.length(events);
      expect(new Set(got.map((one) => one.id)).size).to.equal(events);
    }
    await second.close();
  });

  it('are sent again with the same id when a server is cut off between sending and recording', async () => {
    const { id } = await ground.webhook('cut');
    let answer = () => {};
    ground.receiver.answer('/cut', (response) => (answer = () => void response.end()));
    await ground.raise();
    await arrivals('/cut', 1);
    const client = new pg.Client({ connectionString: ground.app.database.ownerUrl });
    await client.connect();
    try {
      await client.query('begin');
      await client.query('select from webhook_deliveries where webhook_id = $1 for update', [id]);
      ground.receiver.status('/cut', 200);
      answer();
      await eventually(
        () =>
          ground.sql(`select pg_terminate_backend(pid) from pg_stat_activity
            where wait_event_type = 'Lock' and query like '%webhook_deliveries%' and datname = current_database()`),
        (ended) => ended.length > 0,
      );
    } finally {
      await client.end();
    }
    // Its lease ends.
    await ground.sql('update webhooks set lease_until = now() where id = $1', [id]);
    await ground.delivery(id, ({ status }) => status === 'delivered');
    const got = ground.receiver.at('/cut');
    expect(got).to.have.length(2);
    expect(got[0]!.id).to.equal(got[1]!.id);
  });

  it('are sent even if a server gives the webhook back in the moment in which they are added', async () => {
    const { id } = await ground.webhook('given-back');
    // A server has sent what was due, and there was nothing more when it looked.
    await ground.sql(
      `update webhooks set due_at = now() - interval '1 second', lease_id = gen_random_uuid(),
        lease_until = now() + interval '1 hour' where id = $1`,
      [id],
    );
    const client = new pg.Client({ connectionString: ground.app.database.ownerUrl });
    await client.connect();
    try {
      await client.query('begin');
      await client.query('select from webhooks where id = $1 for no key update', [id]);
      const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
      await ground.raise();
      await eventually(
        () =>
          ground.sql('select from pg_stat_activity where $1 = any(pg_blocking_pids(pid))', [rows[0]!.pid]),
        (waiting) => waiting.length > 0,
      );
      await client.query(
        'update webhooks set due_at = null, lease_id = null, lease_until = null where id = $1',
        [id],
      );
      await client.query('commit');
    } finally {
      await client.end();
    }
    await ground.delivery(id, ({ status }) => status === 'delivered');
  });

  it('stop for a deleted organization, also those of the partner', async () => {
    const { orgId } = ground.tenant;
    const own = await ground.webhook('own');
    const ofPartner = await ground.webhook('partner', { orgId: undefined });
    ground.receiver.status('/partner', 500);
    await ground.raise();
    await ground.delivery(ofPartner.id, ({ attempts }) => attempts === 1);
    await ground.delivery(own.id, ({ status }) => status === 'delivered');
    expect((await ground.call('DELETE', `/orgs/organizations/${orgId}`)).status).to.equal(200);
    const before = ground.receiver.received.length;
    await ground.raise();
    await ground.hasten();
    const [ended] = await eventually(
      () =>
        ground.sql<{ status: string; error: string }>(
          'select status, error from webhook_deliveries where webhook_id = $1',
          [ofPartner.id],
        ),
      ([first]) => first?.status === 'failed',
    );
    expect(ended!.error).to.equal('The organization was deleted.');
    expect(ground.receiver.received).to.have.length(before);
    const [{ events } = { events: -1 }] = await ground.sql<{ events: number }>(
      'select count(*)::int as events from webhook_events where fanned_out_at is null',
    );
    expect(events).to.equal(0);
  });
});
