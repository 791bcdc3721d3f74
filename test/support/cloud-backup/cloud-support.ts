import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { newId } from '../../../src/platform/ids.ts';
import { buildTenant, giveSecondFactor } from '../factories.ts';
import { eventually } from '../eventually.ts';
import { type GraphServer, Mailbox, startGraphServer } from '../graph-server.ts';
import { createTestApp, type TestApp, type TestAppOptions } from '../test-app.ts';

export interface CloudFixture {
  app: TestApp;
  graph: GraphServer;
  env: Record<string, string>;
  tenant: Awaited<ReturnType<typeof buildTenant>>;
  connectionId: string;
  keyId: string;
  call(method: string, path: string, body?: unknown): ReturnType<TestApp['call']>;
  /** Adds a mailbox, and a configuration for it. Answers the id of the configuration. */
  config(fields?: object): Promise<string>;
  mailbox(email: string): Mailbox;
  run(configId: string): Promise<CloudJobAnswer>;
  items(query: string): Promise<CloudItemAnswer[]>;
  close(): Promise<void>;
}

export interface CloudJobAnswer {
  id: string;
  status: string;
  itemsNew: number;
  itemsUpdated: number;
  itemsDeleted: number;
  itemsFailed: number;
  error: { code: string; message: string } | null;
  outcomes: { userEmail: string; kind: string; status: string; error: { code: string } | null }[];
  items: { itemId: string; status: string; error: { code: string } | null }[];
}

export interface CloudItemAnswer {
  id: string;
  subjectOrName: string;
  parentPath: string;
  itemType: string;
  isDeleted: boolean;
  externalId: string;
  sizeBytes: number | null;
  errorCode: string | null;
}

export const PLATFORM_APP = '0d7e3a6c-5d5e-4b0e-8a52-0f7f0cf3a111';

/** Microsoft, as a server beside it sees it, and the settings of that server. */
export async function startMicrosoft(): Promise<{
  graph: GraphServer;
  env: Record<string, string>;
  close(): Promise<void>;
}> {
  const graph = await startGraphServer();
  const dataDir = mkdtempSync(path.join(tmpdir(), 'muster-cloud-'));
  const env = {
    DATA_DIR: dataDir,
    C2C_GRAPH_URL: graph.graphUrl,
    C2C_LOGIN_URL: graph.loginUrl,
    C2C_ALLOWED_PRIVATE_CIDRS: '127.0.0.1/32',
    C2C_M365_CLIENT_ID: PLATFORM_APP,
    C2C_M365_CLIENT_SECRET: 'platform-secret',
  };
  return {
    graph,
    env,
    async close() {
      await graph.close();
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}

export async function createCloudFixture(options: TestAppOptions = {}): Promise<CloudFixture> {
  const microsoft = await startMicrosoft();
  const { graph } = microsoft;
  const env = { ...microsoft.env, ...options.env };
  const app = await createTestApp({ ...options, outbound: { allowHttp: true }, env });
  return {
    ...(await buildCloudTenant(app, graph)),
    env,
    async close() {
      await app.close();
      await microsoft.close();
    },
  };
}

/** An organization with a connection and a key, on a server beside that Microsoft. */
export async function buildCloudTenant(
  app: TestApp,
  graph: GraphServer,
): Promise<Omit<CloudFixture, 'env' | 'close'>> {
  const tenant = await buildTenant(app);
  await giveSecondFactor(app, tenant.admin);
  const call = (method: string, place: string, body?: unknown) =>
    app.call(method, place, { token: tenant.admin.token, ...(body === undefined ? {} : { body }) });
  const made = async (place: string, body: object): Promise<string> => {
    const { status, body: answer } = await call('POST', place, body);
    if (status !== 201) throw new Error(`${place}: ${status} ${JSON.stringify(answer)}`);
    return answer.id as string;
  };
  const keyId = await made('/backup/encryption/keys', { orgId: tenant.orgId, name: 'Cloud' });
  const connectionId = await made('/c2c/connections', connectionOf(tenant.orgId));
  return {
    app,
    graph,
    tenant,
    keyId,
    connectionId,
    call,
    config: (fields = {}) =>
      made('/c2c/configs', {
        connectionId,
        encryptionKeyId: keyId,
        name: newId(),
        backupScope: ['mail', 'calendar', 'contacts', 'onedrive'],
        targetUsers: ['ada@example.com'],
        ...fields,
      }),
    mailbox(email) {
      const mailbox = new Mailbox();
      graph.mailboxes.set(email, mailbox);
      return mailbox;
    },
    async run(configId) {
      const started = await call('POST', `/c2c/configs/${configId}/run`);
      if (started.status !== 201) throw new Error(JSON.stringify(started.body));
      return ended(call, started.body.id as string);
    },
    async items(query) {
      const all: CloudItemAnswer[] = [];
      for (let after = ''; ; ) {
        const { body } = await call('GET', `/c2c/items?limit=100&${query}${after}`);
        all.push(...(body.data as CloudItemAnswer[]));
        if (body.nextAfter === null) return all;
        after = `&after=${body.nextAfter as string}`;
      }
    },
  };
}

export const connectionOf = (orgId: string) => ({
  orgId,
  provider: 'microsoft_365',
  displayName: `Directory ${newId()}`,
  tenantId: newId(),
  clientId: newId(),
  clientSecret: 'a-client-secret',
});

export async function ended(
  call: CloudFixture['call'],
  jobId: string,
  withinMs = 60_000,
): Promise<CloudJobAnswer> {
  const { body } = await eventually(
    () => call('GET', `/c2c/jobs/${jobId}`),
    (answer) => answer.body.completedAt !== null,
    withinMs,
  );
  return body as CloudJobAnswer;
}
