import { randomUUID } from 'node:crypto';
import { type Db, openPool } from '../../../src/platform/db/pool.ts';
import { withSystem } from '../../../src/platform/db/transaction.ts';
import { WorkEngine, type EnqueueOptions, type WorkTiming } from '../../../src/features/work/index.ts';
import type { WorkKind } from '../../../src/features/work/definition.ts';
import { recordingLog } from '../quiet-log.ts';
import { asOwner, createTestDatabase, type TestDatabase } from '../test-postgres.ts';

/** Without the patience of a real server. */
const FAST: WorkTiming = { pollMs: 20, leaseMs: 30_000, graceMs: 50, closeMs: 3000 };

export interface WorkRow {
  id: string;
  kind: string;
  status: string;
  stage: string;
  step: string;
  attempt: number;
  fence: string;
  blockers: number;
  progress: unknown;
  checkpoint: unknown;
  error_code: string | null;
  error_message: string | null;
  command_id: string | null;
  finished_at: Date | null;
}

export interface WorkServer {
  engine: WorkEngine;
  db: Db;
  lines: Record<string, unknown>[];
  enqueue<Input>(
    kind: WorkKind<Input>,
    input: NoInfer<Input>,
    options?: EnqueueOptions,
  ): Promise<string | undefined>;
  /** Cancels as a request does. */
  cancel(id: string): Promise<void>;
  pause(id: string): Promise<boolean>;
  resume(id: string): Promise<boolean>;
  stop(): Promise<void>;
}

/** One database with a partner and an organization, and any number of servers that do its work. */
export async function createWorkBench() {
  const database: TestDatabase = await createTestDatabase();
  const servers: WorkServer[] = [];
  const owner = <Row extends object>(sql: string, values?: unknown[]) =>
    asOwner<Row & Record<string, unknown>>(database.ownerUrl, sql, values);
  const partner = async () => {
    const id = randomUUID();
    await owner(
      `insert into partners (id, name, slug, status) values ($1::uuid, 'P', $1::uuid::text, 'active')`,
      [id],
    );
    return id;
  };
  const partnerId = await partner();
  return {
    database,
    owner,
    partner,
    partnerId,
    async organizations(count: number): Promise<string[]> {
      const rows = await owner<{ id: string }>(
        `insert into organizations (id, partner_id, name, slug)
        select id, $1, 'O', id::text from (select gen_random_uuid() as id from generate_series(1, $2::int)) as new
        returning id`,
        [partnerId, count],
      );
      return rows.map(({ id }) => id);
    },
    server(timing: Partial<WorkTiming> = {}): WorkServer {
      const db = openPool(database.appUrl, { max: 6, name: 'test-work', acquireMs: 5000 });
      const { log, lines } = recordingLog();
      const engine = new WorkEngine({
        db,
        nodeId: `node-${servers.length}`,
        log,
        timing: { ...FAST, ...timing },
      });
      const change = async <T>(work: (ctx: Parameters<WorkEngine['pause']>[0]) => Promise<T>): Promise<T> => {
        const after: (() => void | Promise<void>)[] = [];
        const result = await withSystem(db, 'a request of a test', (tx) =>
          work({ tx, afterCommit: (callback) => after.push(callback) }),
        );
        for (const callback of after) await callback();
        return result;
      };
      let stopped: Promise<void> | undefined;
      const stop = async () => {
        await engine.close();
        await db.destroy();
      };
      const server: WorkServer = {
        engine,
        db,
        lines,
        enqueue: (kind, input, options) =>
          withSystem(db, 'a request of a test', (tx) =>
            engine.enqueue(tx, kind, input, { partnerId, ...options }),
          ),
        cancel: (id) => change((ctx) => engine.cancel(ctx, id)),
        pause: (id) => change((ctx) => engine.pause(ctx, id)),
        resume: (id) => change((ctx) => engine.resume(ctx, id)),
        stop: () => (stopped ??= stop()),
      };
      servers.push(server);
      return server;
    },
    rows: () => owner<WorkRow>('select * from work order by created_at, id'),
    row: async (id: string | undefined) =>
      (await owner<WorkRow>('select * from work where id = $1', [id]))[0]!,
    async drop() {
      await Promise.all(servers.map((server) => server.stop()));
      await database.drop();
    },
  };
}
export type WorkBench = Awaited<ReturnType<typeof createWorkBench>>;
