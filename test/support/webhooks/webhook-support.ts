import type { IncomingMessage, ServerResponse } from 'node:http';
import { raisedAlert } from '../raised-alert.ts';
import { withSystem } from '../../../src/platform/db/transaction.ts';
import { eventually } from '../eventually.ts';
import { buildTenant } from '../factories.ts';
import { startHttpsServer, TEST_AUTHORITY } from '../https-server.ts';
import { createTestApp, type TestApp, type TestAppOptions } from '../test-app.ts';
import { asOwner } from '../test-postgres.ts';

/** A request that the receiver got, as it came. */
export interface Received {
  path: string;
  id: string;
  timestamp: string;
  signatures: string[];
  text: string;
  body: { id: string; type: string; createdAt: string; orgId: string | null; data: Record<string, unknown> };
}

type Answering = (response: ServerResponse, received: Received, request: IncomingMessage) => unknown;

/** A receiver that answers 204, unless a path has something else to say. */
export async function startReceiver() {
  const received: Received[] = [];
  const answers = new Map<string, Answering>();
  const server = await startHttpsServer((request, response) => {
    const pieces: Buffer[] = [];
    request.on('data', (piece: Buffer) => pieces.push(piece));
    request.on('end', () => {
      const text = Buffer.concat(pieces).toString('utf8');
      const one: Received = {
        path: request.url ?? '',
        id: String(request.headers['webhook-id']),
        timestamp: String(request.headers['webhook-timestamp']),
        signatures: String(request.headers['webhook-signature']).split(' '),
        text,
        body: JSON.parse(text),
      };
      received.push(one);
      const answer = answers.get(one.path);
      if (answer === undefined) response.writeHead(204).end();
      else answer(response, one, request);
    });
  });
  return {
    server,
    received,
    url: (path: string) => `https://127.0.0.1:${server.port}${path}`,
    at: (path: string) => received.filter((one) => one.path === path),
    /** What is answered at this path from now on. */
    answer: (path: string, how: Answering) => void answers.set(path, how),
    status: (path: string, status: number, headers: Record<string, string> = {}) =>
      void answers.set(path, (response) => response.writeHead(status, headers).end(`said ${status}`)),
    stop: () => server.stop(),
  };
}

export async function webhookGround(options: TestAppOptions = {}) {
  const receiver = await startReceiver();
  const settings: TestAppOptions = {
    env: { WEBHOOK_ALLOWED_PRIVATE_CIDRS: '127.0.0.1/32' },
    outbound: { ca: TEST_AUTHORITY },
    webhooks: { everyMs: 20 },
    ...options,
  };
  const app = await createTestApp(settings);
  const tenant = await buildTenant(app);
  const as = (token: string) => (method: string, path: string, body?: unknown) =>
    app.call(method, path, { token, ...(body === undefined ? {} : { body }) });
  const call = as(tenant.admin.token);

  const deliveriesOf = async (webhookId: string, query = '') =>
    (await call('GET', `/webhooks/${webhookId}/deliveries?limit=100${query}`)).body.data;

  return {
    app,
    receiver,
    settings,
    tenant,
    as,
    call,
    sql: <Row extends Record<string, unknown>>(text: string, values?: unknown[]) =>
      asOwner<Row>(app.database.ownerUrl, text, values),
    /** Creates a webhook, with the path of its name. */
    async webhook(name: string, fields: object = {}) {
      const { status, body } = await call('POST', '/webhooks', {
        name,
        url: receiver.url(`/${name}`),
        eventTypes: ['alert.raised'],
        orgId: tenant.orgId,
        ...fields,
      });
      if (status !== 201) throw new Error(JSON.stringify(body));
      return body as { id: string; secret: string };
    },
    raise: (orgId = tenant.orgId, kind = `test_${Math.random().toString(36).slice(2, 10)}`) =>
      raise(app, orgId, kind),
    deliveriesOf,
    /** Waits until the newest delivery fits. */
    delivery: async (webhookId: string, fits: (delivery: Shown) => boolean): Promise<Shown> => {
      const [newest] = await eventually(
        () => deliveriesOf(webhookId) as Promise<Shown[]>,
        ([first]) => first !== undefined && fits(first),
      );
      if (newest === undefined) throw new Error('no delivery');
      return newest;
    },
    /** As if all the time had passed for which something waits. */
    hasten: () =>
      asOwner(
        app.database.ownerUrl,
        `with due as (update webhook_deliveries set next_attempt_at = now() where status = 'pending' returning webhook_id)
        update webhooks set due_at = now(), paused_until = null where id in (select webhook_id from due)`,
      ),
    async close() {
      await app.close();
      await receiver.stop();
    },
  };
}

export interface Shown {
  id: string;
  eventId: string;
  eventType: string;
  status: string;
  attempts: number;
  responseStatus: number | null;
  error: string | null;
  isReplay: boolean;
}

const raise = (app: TestApp, orgId: string, kind: string): Promise<string> =>
  withSystem(app.server.database.pool, 'test data', (tx) =>
    raisedAlert(tx, { orgId, kind, severity: 'low', title: `Alert ${kind}`, message: 'It is a test.' }),
  );
