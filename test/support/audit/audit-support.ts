import { randomUUID } from 'node:crypto';
import { ChainWriter, SigningKeys } from '../../../src/features/audit/index.ts';
import type { ChainWriterTiming } from '../../../src/features/audit/chain-writer.ts';
import { openPool, type Db } from '../../../src/platform/db/pool.ts';
import type { Logger } from '../../../src/platform/logger.ts';
import { createEncryptor } from '../../../src/platform/secrets/sealed.ts';
import { quietLog } from '../quiet-log.ts';
import { asOwner, createTestDatabase, type TestDatabase } from '../test-postgres.ts';

export const SECRET = { current: 'a-key-that-only-tests-seal-secrets-with', old: [] };

/** A database with a partner and an organization, and a sealer that seals when it is told to. */
export interface AuditBench {
  database: TestDatabase;
  db: Db;
  keys: SigningKeys;
  sealer: ChainWriter;
  partnerId: string;
  orgId: string;
  owner<Row extends object>(sql: string, values?: unknown[]): Promise<(Row & Record<string, unknown>)[]>;
  /** Waiting entries of a chain, in one statement; `n` is in their details. */
  add(count: number, chain?: { orgId?: string | null; name?: string; daysAgo?: number }): Promise<void>;
  organization(): Promise<string>;
  anotherSealer(
    timing?: Partial<ChainWriterTiming>,
    log?: Logger,
    onSealed?: (lagSeconds: number) => void,
  ): ChainWriter;
  close(): Promise<void>;
}

export async function createAuditBench(options: { durable?: boolean } = {}): Promise<AuditBench> {
  const database = await createTestDatabase(options);
  const db = openPool(database.appUrl, { max: 8, name: 'audit' });
  const keys = new SigningKeys(createEncryptor(SECRET));
  await keys.ensure(db);
  const owner = <Row extends object>(sql: string, values?: unknown[]) =>
    asOwner<Row & Record<string, unknown>>(database.ownerUrl, sql, values);
  const partnerId = randomUUID();
  await owner(
    `insert into partners (id, name, slug, status) values ($1::uuid, 'P', $1::uuid::text, 'active')`,
    [partnerId],
  );
  const organization = async () => {
    const id = randomUUID();
    await owner(
      `insert into organizations (id, partner_id, name, slug) values ($1::uuid, $2, 'O', $1::uuid::text)`,
      [id, partnerId],
    );
    return id;
  };
  const orgId = await organization();
  const sealers: ChainWriter[] = [];
  const anotherSealer = (
    timing: Partial<ChainWriterTiming> = {},
    log: Logger = quietLog,
    onSealed: (lagSeconds: number) => void = () => {},
  ) => {
    const made = new ChainWriter({
      db,
      keys: new SigningKeys(createEncryptor(SECRET)),
      log,
      onSealed,
      timing: { sweepMs: 3_600_000, ...timing },
    });
    sealers.push(made);
    return made;
  };
  return {
    database,
    db,
    keys,
    sealer: anotherSealer(),
    partnerId,
    orgId,
    owner,
    organization,
    anotherSealer,
    async add(count, chain = {}) {
      await owner(
        `insert into audit_outbox (id, org_id, partner_id, actor_type, actor_id, actor_email, action, resource_type,
          resource_id, resource_name, details, ip_address, user_agent, result, error_message, "timestamp")
        select gen_random_uuid(), $1, $2, 'user', gen_random_uuid(), 'who@example.com', 'site.update', 'site',
          gen_random_uuid(), $4::text || n, jsonb_build_object('n', n, 'changedFields', '["name"]'::jsonb),
          '10.0.0.1', E'Mozilla/5.0\\t(\\\\)', 'success', null,
          now() - make_interval(days => $5::int)
        from generate_series(1, $3::int) n`,
        [
          chain.orgId === undefined ? orgId : chain.orgId,
          partnerId,
          count,
          chain.name ?? 'Site "\\ \n\tß€😀',
          chain.daysAgo ?? 0,
        ],
      );
    },
    async close() {
      await Promise.all(sealers.map((one) => one.close()));
      await db.destroy();
      await database.drop();
    },
  };
}
