import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { newId } from '../../../../src/platform/ids.ts';
import type { TestApp } from '../../../support/test-app.ts';

export interface NewEntry {
  org_id?: string | null;
  partner_id?: string | null;
  actor_type?: string;
  actor_id?: string;
  actor_email?: string | null;
  action?: string;
  resource_type?: string;
  resource_id?: string | null;
  resource_name?: string | null;
  details?: object;
  timestamp?: string;
  result?: string;
}

/** Entries as deeds write them, sealed. Answers their ids. */
export async function addEntries(app: TestApp, ...entries: NewEntry[]): Promise<string[]> {
  const rows = entries.map((entry) => ({
    id: newId(),
    actor_type: 'user',
    actor_id: newId(),
    actor_email: 'someone@example.com',
    action: 'thing.done',
    resource_type: 'thing',
    result: 'success',
    ip_address: '203.0.113.5',
    user_agent: 'Test/1',
    ...entry,
    details: JSON.stringify(entry.details ?? {}),
  }));
  await withSystem(app.server.database.pool, 'test data', async (tx) => tx('audit_outbox').insert(rows));
  await app.server.chainWriter.flush();
  return rows.map(({ id }) => id);
}

/** What the trail has of an action, oldest first. */
export async function entriesOf(app: TestApp, action: string): Promise<Record<string, unknown>[]> {
  await app.server.chainWriter.flush();
  const { rows } = await withSystem(app.server.database.pool, 'test', (tx) =>
    tx.raw('select * from audit_logs where action = ? order by "timestamp", seq', [action]),
  );
  return rows;
}
