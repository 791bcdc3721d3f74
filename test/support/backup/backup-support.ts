import { withSystem } from '../../../src/platform/db/transaction.ts';
import { buildTenant, giveSecondFactor, type Person } from '../factories.ts';
import type { Answer, TestApp } from '../test-app.ts';

/** A partner with one organization, whose administrator has a second factor, and one encryption key. */
export async function buildBackupTenant(app: TestApp) {
  const tenant = await buildTenant(app);
  await giveSecondFactor(app, tenant.admin);
  const send = (
    method: string,
    path: string,
    body?: unknown,
    person: Person = tenant.admin,
  ): Promise<Answer> =>
    app.call(method, path, { token: person.token, ...(body === undefined ? {} : { body }) });
  const key = await send('POST', '/backup/encryption/keys', { orgId: tenant.orgId, name: 'Main' });
  if (key.status !== 201) throw new Error(`the key was not made: ${JSON.stringify(key.body)}`);
  const keyId: string = key.body.id;
  const newConfig = (given: Record<string, unknown> = {}) => ({
    orgId: tenant.orgId,
    name: 'Documents',
    provider: 'server',
    encryptionKeyId: keyId,
    sources: { paths: { linux: ['/home'] } },
    ...given,
  });
  return {
    ...tenant,
    send,
    keyId,
    newConfig,
    async createConfig(given: Record<string, unknown> = {}): Promise<Answer['body']> {
      const answer = await send('POST', '/backup/configs', newConfig(given));
      if (answer.status !== 201) {
        throw new Error(`the configuration was not made: ${JSON.stringify(answer.body)}`);
      }
      return answer.body;
    },
  };
}
export type BackupTenant = Awaited<ReturnType<typeof buildBackupTenant>>;

/** Every row of these tables as text, for tests that look for a secret. */
export const storedText = (app: TestApp, tables: readonly string[]): Promise<string> =>
  withSystem(app.server.database.pool, 'test', async (tx) => {
    const { rows } = await tx.raw<{ rows: { text: string }[] }>(
      tables.map((table) => `select to_jsonb(t)::text as text from ${table} t`).join(' union all '),
    );
    return rows.map(({ text }) => text).join('\n');
  });
