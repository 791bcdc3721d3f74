import { type NewAlert, raiseAlerts, resolveAlert } from '../../../src/features/alerts/index.ts';
import { withSystem } from '../../../src/platform/db/transaction.ts';
import { buildTenant } from '../factories.ts';
import { TEST_AUTHORITY } from '../https-server.ts';
import { createMailbox } from '../mailbox.ts';
import { createTestApp, type TestAppOptions } from '../test-app.ts';
import { asOwner } from '../test-postgres.ts';
import { startReceivers } from './receivers.ts';

/** Longer than a test: rounds are had when the test settles. */
const NEVER_MS = 3_600_000;
const ROUTING_KEY = 'a1b2c3d4e5f6a1b2c3d4e5f6a1b2c3d4';
export const SIGNING_SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;

export interface Shown {
  id: string;
  orgId: string;
  groupId: string | null;
  reason: string;
  status: string;
  step: number | null;
  channelId: string | null;
  userId: string | null;
  recipient: string;
  title: string;
  alertCount: number;
  attempts: number;
  error: string | null;
}

export async function notificationGround(options: TestAppOptions = {}) {
  const receivers = await startReceivers();
  const mailbox = await createMailbox();
  const settings: TestAppOptions = {
    ...options,
    env: {
      WEBHOOK_ALLOWED_PRIVATE_CIDRS: '127.0.0.1/32',
      DATA_DIR: mailbox.dataDir,
      PUBLIC_URL: 'https://rmm.example.com/',
      ...options.env,
    },
    outbound: { ca: TEST_AUTHORITY },
    notifications: options.notifications ?? { everyMs: NEVER_MS },
  };
  const app = await createTestApp(settings);
  const tenant = await buildTenant(app);
  const as = (token: string) => (method: string, path: string, body?: unknown) =>
    app.call(method, path, { token, ...(body === undefined ? {} : { body }) });
  const call = as(tenant.admin.token);
  const sql = <Row extends Record<string, unknown>>(text: string, values?: unknown[]) =>
    asOwner<Row>(app.database.ownerUrl, text, values);
  let count = 0;

  const made = async (path: string, body: object) => {
    const answer = await call('POST', path, body);
    if (answer.status !== 201) throw new Error(JSON.stringify(answer.body));
    return answer.body as { id: string };
  };

  /** A channel whose receiver listens at the path of its type and name. */
  const channel = (type: string, name = `${type} ${++count}`, fields: object = {}) => {
    const url = receivers.url(`/${type}/${encodeURIComponent(name)}`);
    const details: Record<string, object> = {
      email: { details: { address: 'alarm@example.com' } },
      slack: { details: {}, secret: url },
      teams: { details: {}, secret: url },
      discord: { details: {}, secret: url },
      pagerduty: { details: { url }, secret: ROUTING_KEY },
      ntfy: { details: { server: url, topic: 'alarm' }, secret: 'tk_secret' },
      webhook: { details: { url }, secret: SIGNING_SECRET },
    };
    return made('/notification-channels', {
      orgId: tenant.orgId,
      name,
      type,
      ...details[type],
      ...fields,
    });
  };

  const alertOf = (fields: Partial<NewAlert> = {}): NewAlert => ({
    orgId: tenant.orgId,
    kind: `test_${++count}`,
    severity: 'high',
    title: `Problem ${count}`,
    message: 'It is a test.',
    ...fields,
  });

  return {
    app,
    receivers,
    mailbox,
    settings,
    tenant,
    as,
    call,
    sql,
    channel,
    policy: (fields: object = {}) =>
      made('/notification-policies', { orgId: tenant.orgId, name: `Policy ${++count}`, ...fields }),
    /** Raises alerts in one transaction, and returns their ids. */
    raise: async (...alerts: Partial<NewAlert>[]): Promise<string[]> =>
      withSystem(app.server.database.pool, 'test data', (tx) => raiseAlerts(tx, alerts.map(alertOf))),
    /** The cause of an alert ends. */
    end: (kind: string, deviceId?: string) =>
      withSystem(app.server.database.pool, 'test data', (tx) =>
        resolveAlert(tx, {
          orgId: tenant.orgId,
          kind,
          why: 'It is over.',
          ...(deviceId === undefined ? {} : { deviceId }),
        }),
      ),
    /** The log of the tenant, the oldest first. */
    log: async (query = ''): Promise<Shown[]> =>
      (await call('GET', `/notifications?limit=100&orgId=${tenant.orgId}${query}`)).body.data.toReversed(),
    /** As if so many minutes had passed, for conversations. */
    async pass(minutes: number) {
      await sql(
        `update notification_groups set began_at = began_at - $1 * interval '1 minute',
          due_at = due_at - $1 * interval '1 minute', last_told_at = last_told_at - $1 * interval '1 minute'`,
        [minutes],
      );
      await app.settle();
    },
    /** As if all the time had passed for which messages wait. */
    async hasten() {
      await sql(`update work set due_at = now() where kind = 'notification' and finished_at is null`);
      await sql('update notification_channels set paused_until = null');
      await app.settle();
    },
    /** Between tests: nobody is told anything any more. */
    async clear() {
      await sql('delete from alerts');
      await sql('delete from notification_policies');
      await sql('delete from notification_groups');
      await sql('delete from notifications');
      await sql(`delete from work where kind = 'notification'`);
      receivers.got.length = 0;
    },
    async close() {
      await app.close();
      await receivers.stop();
      await mailbox.remove();
    },
  };
}
