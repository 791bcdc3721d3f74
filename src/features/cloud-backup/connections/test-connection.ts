import { z } from 'zod';
import { clock } from '../../../clock.ts';
import type { DetachedContext } from '../../../platform/context.ts';
import type { Db } from '../../../platform/db/pool.ts';
import { assertManageable } from '../../organizations/index.ts';
import { followRuns } from '../care/follow-runs.ts';
import { GraphError, Postponed } from '../graph/graph-error.ts';
import { findConnection } from './connection.service.ts';
import { type CloudParts, openGraph } from './open-graph.ts';

const PATIENCE_MS = 5000;
const LIMIT_MS = 25_000;

/** Signs in, and asks for one user, which every kind of backup needs. */
export async function testConnection(
  ctx: DetachedContext,
  id: string,
  { cloud, db, signal }: { cloud: CloudParts; db: Db; signal: AbortSignal },
) {
  const connection = await ctx.withTenant(async (inside) => {
    const found = await findConnection(inside, id);
    await assertManageable(inside, found.orgId);
    return found;
  });
  const check = await tryOut(async () => {
    const limited = AbortSignal.any([signal, clock.timeoutSignal(LIMIT_MS)]);
    const graph = openGraph(cloud, connection, { db, signal: limited, patienceMs: PATIENCE_MS });
    await graph.json('/users?$select=id&$top=1', z.object({ value: z.array(z.unknown()) }));
  });
  await ctx.withTenant(async (inside) => {
    await (await findConnection(inside, id)).$query(inside.tx).patch({
      lastErrorCode: check.code ?? null,
      lastErrorMessage: check.message?.slice(0, 1000) ?? null,
    });
    await followRuns(inside.tx, connection.orgId);
  });
  const status = check.ok ? ('success' as const) : ('failed' as const);
  const { orgId, displayName } = connection;
  return { id, orgId, displayName, status, checks: [check], checkedAt: clock.date().toISOString() };
}

async function tryOut(
  work: () => Promise<void>,
): Promise<{ name: string; ok: boolean; code?: string; message?: string }> {
  const name = 'graph';
  try {
    await work();
    return { name, ok: true };
  } catch (error) {
    if (error instanceof GraphError) return { name, ok: false, code: error.code, message: error.message };
    if (error instanceof Postponed) return { name, ok: false, code: 'THROTTLED', message: error.message };
    if (error instanceof DOMException && error.name === 'TimeoutError') {
      return { name, ok: false, code: 'GRAPH_TIMED_OUT', message: 'Microsoft Graph did not answer in time.' };
    }
    throw error;
  }
}
