import { createServer, Agent, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import express from 'express';
import { AuditSealer, createAuditTrail, RepeatedReads, SigningKeys } from '../src/features/audit/index.ts';
import { siteRoutes } from '../src/features/sites/site.routes.ts';
import { SYSTEM_ROLES } from '../src/features/users/index.ts';
import type { Caller } from '../src/platform/context.ts';
import { errorHandler } from '../src/platform/http/error-body.ts';
import type { AuditTrail } from '../src/platform/http/audit.ts';
import { mount } from '../src/platform/http/mount/mount.ts';
import { beginRequest } from '../src/platform/http/request-state.ts';
import { newId } from '../src/platform/ids.ts';
import { ExpensiveWork } from '../src/platform/expensive-work.ts';
import { createMetrics } from '../src/platform/metrics.ts';
import { createSealer } from '../src/platform/secrets/sealed.ts';
import { type AuditBench, createAuditBench, SECRET } from '../test/support/audit/audit-support.ts';
import { quietLog } from '../test/support/quiet-log.ts';
import { stopTestPostgres } from '../test/support/test-postgres.ts';

/**
 * `npm run bench:audit-request` measures what a request spends on its audit entry. The same route runs on the same
 * database through the same pipeline, alternating between the real audit trail with its sealer and one that writes
 * nothing.
 */

const TURNS = 5;
const REQUESTS = 1500;
const AT_ONCE = 4;

const NOTHING: AuditTrail = { record: async () => {}, recordAll: async () => {}, committed() {} };

let made = 0;
const bench = await createAuditBench();
const sealer = new AuditSealer({ db: bench.db, keys: new SigningKeys(createSealer(SECRET)), log: quietLog });
try {
  const servers = { without: await serve(NOTHING), with: await serve(createAuditTrail(sealer)) };
  const latencies: Record<'without' | 'with', number[]> = { without: [], with: [] };
  for (let turn = -1; turn < TURNS; turn++) {
    for (const name of ['without', 'with'] as const) {
      const taken = await load(servers[name].port);
      if (turn >= 0) latencies[name].push(...taken);
    }
  }
  for (const { close } of Object.values(servers)) close();
  const figures = Object.fromEntries(
    Object.entries(latencies).map(([name, all]) => [
      name,
      { 'p50 ms': at(all, 0.5), 'p99 ms': at(all, 0.99) },
    ]),
  );
  console.table(figures);
  const ratio = Number((at(latencies.with, 0.5) / at(latencies.without, 0.5)).toFixed(3));
  console.log(
    JSON.stringify({ turns: TURNS, requests: REQUESTS, atOnce: AT_ONCE, figures, 'p50 ratio': ratio }),
  );
} finally {
  await sealer.close();
  await bench.close();
  await stopTestPostgres();
}

async function serve(audit: AuditTrail): Promise<{ port: number; close: () => void }> {
  const caller = callerOf(bench);
  const app = express();
  app.use(beginRequest(quietLog, createMetrics(), { proxies: undefined, cfConnectingIp: false }));
  app.use(
    mount([siteRoutes], '/api/v1', {
      db: bench.db,
      authenticator: { authenticate: async () => caller },
      agents: { authenticate: () => Promise.reject(new Error('no agents here')) },
      audit,
      expensive: new ExpensiveWork({ poolSize: 10 }),
      reads: new RepeatedReads(),
      watchRights: () => ({ close: () => undefined }),
    }),
  );
  app.use(errorHandler);
  const server = createServer(app);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { port: (server.address() as AddressInfo).port, close: () => void server.close() };
}

function callerOf({ orgId }: AuditBench): Caller {
  return {
    kind: 'user',
    scope: 'organization',
    orgAccess: 'listed',
    orgIds: [orgId],
    userId: newId(),
    sessionId: newId(),
    apiKeyId: null,
    email: 'who@example.com',
    name: 'Who',
    orgId,
    partnerId: null,
    roleId: SYSTEM_ROLES.organizationAdmin,
    roleName: 'Admin',
    permissions: new Set(['*:*']),
    mfa: false,
    ipAllowlist: [],
  };
}

async function load(port: number): Promise<number[]> {
  const agent = new Agent({ keepAlive: true, maxSockets: AT_ONCE });
  const taken: number[] = [];
  let left = REQUESTS;
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      while (left-- > 0) {
        const since = performance.now();
        await post(port, agent);
        taken.push(performance.now() - since);
      }
    }),
  );
  agent.destroy();
  return taken;
}

function post(port: number, agent: Agent): Promise<void> {
  const body = JSON.stringify({ orgId: bench.orgId, name: `Site ${++made}` });
  return new Promise((resolve, reject) => {
    const headers = {
      authorization: 'Bearer x',
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
    };
    const call = request({ port, agent, method: 'POST', path: '/orgs/sites', headers }, (answer) => {
      answer.resume().on('end', () => {
        if (answer.statusCode === 201) resolve();
        else reject(new Error(`answered ${answer.statusCode}`));
      });
    });
    call.on('error', reject).end(body);
  });
}

function at(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return Number((sorted[Math.floor((sorted.length - 1) * share)] ?? Number.NaN).toFixed(2));
}
