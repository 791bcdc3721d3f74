import { expect } from 'chai';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { readConfig } from '../../../src/config.ts';
import { Site } from '../../../src/features/sites/site.model.ts';
import { openPool, type Db } from '../../../src/platform/db/pool.ts';
import { type Statement } from '../../../src/platform/db/statement.ts';
import { UnsafeDatabaseError } from '../../../src/platform/db/roles.ts';
import type { TenantScope } from '../../../src/platform/db/tenant-scope.ts';
import {
  withSystem,
  withSystemStatement,
  withTenant,
  runPrepared,
} from '../../../src/platform/db/transaction.ts';
import { newId } from '../../../src/platform/ids.ts';
import { startServer } from '../../../src/server.ts';
import { buildOrganization, buildPartner, buildPerson, buildSite } from '../../support/factories.ts';
import { eventually } from '../../support/eventually.ts';
import { quietLog } from '../../support/quiet-log.ts';
import { createTestApp, type TestApp } from '../../support/test-app.ts';
import { asOwner, createTestDatabase, type TestDatabase } from '../../support/test-postgres.ts';

const tenantOf = (orgId: string): TenantScope => ({
  scope: 'organization',
  userId: newId(),
  partnerId: null,
  orgAccess: 'listed',
  orgIds: [orgId],
});

describe('the start on an unsafe database', () => {
  let database: TestDatabase;
  // Roles belong to the whole test cluster, so these have names of their own and go again.
  const role = `serving_${process.pid}`;
  const chief = `chief_${process.pid}`;
  const owner = (sql: string) => asOwner(database.ownerUrl, sql);

  beforeEach(async () => {
    database = await createTestDatabase();
    await owner(`create role ${role} login password 'pw'`);
    await owner(`create role ${chief} superuser nologin`);
  });
  afterEach(async () => {
    await owner(`reassign owned by ${role}, ${chief} to current_user; drop owned by ${role}, ${chief}`);
    await owner(`drop role ${role}, ${chief}`);
    await database.drop();
  });

  const servingUrl = () => {
    const url = new URL(database.ownerUrl);
    url.username = role;
    url.password = 'pw';
    return url.href;
  };

  /** Tries both ways to start, as `role` or as another one, and returns the faults, which must be the same. */
  async function refusal(appUrl = servingUrl()): Promise<string> {
    const reported: string[] = [];
    for (const migrates of ['true', 'false']) {
      try {
        const server = await startServer({
          config: readConfig({ environment: { PORT: '0', AUTO_MIGRATE: migrates } }),
          database: { ownerUrl: database.ownerUrl, appUrl },
          jwtSecret: 'a-secret-that-only-tests-sign-with',
          secretKeys: { current: 'a-key-that-only-tests-seal-with', old: [] },
          log: quietLog,
        });
        await server.close();
        reported.push('started');
      } catch (error) {
        if (!(error instanceof UnsafeDatabaseError)) throw error;
        reported.push(error.faults.join('; '));
      }
    }
    expect(reported[0], 'with and without AUTO_MIGRATE').to.equal(reported[1]);
    return reported[0]!;
  }

  it('goes on if the role is a plain member of svc_app', async () => {
    await owner(`grant svc_app to ${role}`);
    expect(await refusal()).to.equal('started');
  });

  it('is refused to a superuser', async () => {
    expect(await refusal(database.ownerUrl)).to.include('the serving role "muster" is a superuser');
  });

  it('is refused to a role that bypasses row level security', async () => {
    await owner(`grant svc_app to ${role}; alter role ${role} bypassrls`);
    expect(await refusal()).to.equal(`the serving role "${role}" bypasses row level security`);
  });

  it('is refused to a role that can become a superuser, even if it has to say so first', async () => {
    await owner(`grant svc_app to ${role}; grant ${chief} to ${role} with inherit false`);
    expect(await refusal()).to.equal(
      `the serving role "${role}" can become ${chief}, which is not bound by it`,
    );
  });

  it('is refused to a role that can become one by way of another', async () => {
    await owner(
      `grant svc_app to ${role}; alter role ${chief} nosuperuser bypassrls; create role way_${role}`,
    );
    await owner(`grant ${chief} to way_${role}; grant way_${role} to ${role}`);
    expect(await refusal()).to.include(`can become ${chief}`);
    await owner(`drop role way_${role}`);
  });

  it('is refused to a role that can prune the audit trail', async () => {
    await owner(`grant svc_app to ${role}; grant svc_audit_admin to ${role} with inherit false`);
    expect(await refusal()).to.equal(
      `the serving role "${role}" can become svc_audit_admin, which is not bound by it`,
    );
    await owner(`revoke svc_audit_admin from ${role}`);
  });

  it('is refused to the owner of a table', async () => {
    await owner(`grant svc_app to ${role}; alter table sites owner to ${role}`);
    expect(await refusal()).to.equal(`the serving role "${role}" owns sites`);
  });

  it('is refused to a role that has no part in svc_app', async () => {
    expect(await refusal()).to.equal(`the serving role "${role}" is not a member of svc_app`);
    await owner(`grant svc_app to ${role} with inherit false`);
    expect(await refusal()).to.equal(`the serving role "${role}" is not a member of svc_app`);
  });

  it('is refused while a table is open, or closed to everyone but its owner', async () => {
    await owner('create table left_open (id uuid primary key, org_id uuid)');
    expect(await refusal(database.appUrl)).to.equal(
      'table "left_open" is not protected by forced row level security',
    );
    await owner('alter table left_open enable row level security');
    expect(await refusal(database.appUrl)).to.include('left_open');
    await owner('alter table left_open force row level security');
    expect(await refusal(database.appUrl)).to.equal('started');
    await owner('alter table devices no force row level security');
    expect(await refusal(database.appUrl)).to.include('"devices"');
  });

  it('names all that is wrong at once', async () => {
    await owner(
      `alter role ${role} bypassrls; create table left_open (id uuid); alter table sites owner to ${role}`,
    );
    const faults = await refusal();
    for (const part of ['bypasses', 'owns sites', 'not a member', '"left_open"']) {
      expect(faults).to.include(part);
    }
  });
});

describe('a transaction of a tenant', () => {
  let app: TestApp;
  let db: Db;
  let partnerId: string;
  let orgIds: string[];

  before(async () => {
    app = await createTestApp({ env: { DATABASE_POOL_SIZE: '5' } });
    // One connection: every transaction gets the one that the last has left.
    db = openPool(app.database.appUrl, { max: 1, name: 'isolation' });
    partnerId = await buildPartner(app);
    orgIds = await Promise.all(Array.from({ length: 20 }, () => buildOrganization(app, partnerId)));
    await Promise.all(orgIds.map((orgId) => buildSite(app, orgId, { name: `Site of ${orgId}` })));
  });
  after(async () => {
    await db.destroy();
    await app.close();
  });

  const session = async () => {
    const { rows } = await db.raw(`select current_user as role, pg_backend_pid() as pid,
      coalesce(current_setting('app.org_ids', true), '') as "orgIds",
      coalesce(current_setting('app.partner_id', true), '') as "partnerId",
      coalesce(current_setting('app.org_access', true), '') as "orgAccess",
      coalesce(current_setting('app.user_id', true), '') as "userId"`);
    return rows[0] as Record<string, unknown>;
  };
  const CLEAN = { role: 'svc_app', orgIds: '', partnerId: '', orgAccess: '', userId: '' };
  const failing = () => Promise.reject(new Error('on purpose'));
  const siteNames = async (tenant: TenantScope) =>
    withTenant(db, tenant, (tx) => tx('sites').pluck('name')) as Promise<string[]>;

  it('leaves nothing on its connection, however it ends', async () => {
    const { pid } = await session();
    const wide: TenantScope = { scope: 'partner', userId: newId(), partnerId, orgAccess: 'all', orgIds };
    const system: TenantScope = { ...wide, scope: 'system' };
    for (const tenant of [tenantOf(orgIds[0]!), wide, system]) {
      expect((await siteNames(tenant)).length).to.equal(tenant.orgAccess === 'all' ? 20 : 1);
      expect(await session(), tenant.scope).to.deep.equal({ ...CLEAN, pid });
      await withTenant(db, tenant, failing).catch(() => {});
      expect(await session(), tenant.scope).to.deep.equal({ ...CLEAN, pid });
      await withTenant(db, tenant, (tx) => tx.raw('select 1 / 0')).catch(() => {});
      expect(await session(), tenant.scope).to.deep.equal({ ...CLEAN, pid });
    }
    await withSystem(db, 'test', failing).catch(() => {});
    expect(await session()).to.deep.equal({ ...CLEAN, pid });
  });

  it('of one statement leaves nothing on it either: kept, undone, failed or cut off', async () => {
    const { pid } = await session();
    const tenant = tenantOf(orgIds[0]!);
    const [before] = await siteNames(tenant);
    const rename = (name: string | undefined): Statement & { values: unknown[] } => ({
      name: 'test-rename',
      text: 'update sites set name = $1 where org_id = $2 returning name',
      values: [name, orgIds[0]],
    });
    const run = async (statement: ReturnType<typeof rename>, isFinal = () => true) =>
      withSystemStatement<{ name: string }>(db, 'test', statement, isFinal);
    const isAsBefore = async (name: string | undefined) => {
      expect(await session()).to.deep.equal({ ...CLEAN, pid });
      expect(await siteNames(tenant)).to.deep.equal([name]);
    };

    expect(await run(rename('Kept'))).to.deep.equal([{ name: 'Kept' }]);
    await isAsBefore('Kept');
    expect(await run(rename('Undone'), () => false)).to.equal(undefined);
    await isAsBefore('Kept');
    const refused = run(rename('Refused'), () => {
      throw new Error('on purpose');
    });
    expect(await refused.catch(({ message }: Error) => message)).to.equal('on purpose');
    await isAsBefore('Kept');
    const failed = run({ name: 'test-fail', text: 'select 1 / $1::int as name', values: [0] });
    expect(await failed.catch(({ message }: Error) => message)).to.equal('division by zero');
    await isAsBefore('Kept');
    await run(rename(before));

    const cut = run({ name: 'test-cut', text: 'select pg_sleep(20)::text as name', values: [] });
    const reported = cut.catch(({ message }: Error) => message);
    await eventually(
      () =>
        asOwner(
          app.database.ownerUrl,
          `select pg_terminate_backend(pid) from pg_stat_activity where pid = $1 and query like '%pg_sleep(20)%'`,
          [pid],
        ),
      (ended) => ended.length === 1,
    );
    expect(await reported).to.include('terminat');
    const { pid: other, ...rest } = await session();
    expect(rest).to.deep.equal(CLEAN);
    expect(other).not.to.equal(pid);
  });

  it('does not widen the one after it: each sees its own rows on the same connection', async () => {
    for (const orgId of orgIds.slice(0, 5)) {
      await withSystem(db, 'test', (tx) => tx('sites').select());
      expect(await siteNames(tenantOf(orgId))).to.deep.equal([`Site of ${orgId}`]);
    }
    expect(await siteNames({ ...tenantOf(newId()), orgIds: [] })).to.deep.equal([]);
  });

  it('is the only way to a row: without one the pool sees none, and writes none', async () => {
    for (const table of [
      'partners',
      'organizations',
      'sites',
      'devices',
      'users',
      'audit_logs',
      'enrollment_keys',
    ]) {
      expect(await db(table).select(), table).to.deep.equal([]);
    }
    const written = await db('sites')
      .insert({ id: newId(), org_id: orgIds[0], name: 'Intruder' })
      .then(
        () => 'written',
        (error: Error & { code?: string }) => error.code,
      );
    expect(written).to.equal('42501');
    expect(await db('sites').update({ name: 'Changed' })).to.equal(0);
  });

  it('is rolled back wholly when its work fails', async () => {
    const id = newId();
    const tenant = tenantOf(orgIds[0]!);
    const failed = withTenant(db, tenant, async (tx) => {
      await tx('sites').insert({ id, org_id: orgIds[0], name: 'Half done' });
      expect(await tx('sites').where({ id })).to.have.lengthOf(1);
      throw new Error('on purpose');
    });
    expect(await failed.catch((error: Error) => error.message)).to.equal('on purpose');
    expect(await withSystem(db, 'test', (tx) => tx('sites').where({ id }))).to.deep.equal([]);
  });

  it('is what a model needs: without one its query throws', async () => {
    const query = await Promise.resolve()
      .then(() => Site.query())
      .then(
        () => 'answered',
        (error: Error) => error.message,
      );
    expect(query).to.include('no database connection available for a query');
    const found = await withTenant(db, tenantOf(orgIds[3]!), (tx) => Site.query(tx));
    expect(found.map(({ orgId }) => orgId)).to.deep.equal([orgIds[3]]);
  });

  it('answers a read before its commit, and lets a read change nothing', async () => {
    const [orgId] = orgIds as [string];
    const order: string[] = [];
    let commit: Promise<unknown> = Promise.resolve();
    await withTenant(
      db,
      tenantOf(orgId),
      async (tx) => {
        commit = Promise.resolve(tx.executionPromise).then(() => order.push('committed'));
        await tx('sites');
      },
      { readOnly: true },
    );
    order.push('answered');
    await commit;
    expect(order).to.deep.equal(['answered', 'committed']);
    const write = withTenant(db, tenantOf(orgId), (tx) => tx('sites').update({ name: 'x' }), {
      readOnly: true,
    });
    const refused = await write.then(
      () => 'written',
      (error: Error) => `${error.message} ${String(error.cause)}`,
    );
    expect(refused).to.include('A transaction that only reads has tried to write.');
    expect(refused).to.include('cannot execute UPDATE in a read-only transaction');
  });

  it('takes no statement when it is over, prepared or not', async () => {
    const kept = await withTenant(db, tenantOf(orgIds[0]!), async (tx) => tx);
    const late = await runPrepared(kept, { name: 'late', text: 'select 1' }, []).then(
      () => 'answered',
      (error: Error) => error.message,
    );
    expect(late).to.include('the transaction was over');
  });

  it('keeps 100 requests at once of 20 organizations apart on 5 connections', async () => {
    const people = await Promise.all(
      orgIds.map((orgId) => buildPerson(app, { scope: 'organization', orgId })),
    );
    const answers = await Promise.all(
      Array.from({ length: 100 }, async (_, i) => {
        const answer = await app.call('GET', '/orgs/sites', { token: people[i % 20]!.token });
        return { answer, orgId: orgIds[i % 20] };
      }),
    );
    for (const { answer, orgId } of answers) {
      expect(answer.status).to.equal(200);
      expect(answer.body.data.map((site: { name: string }) => site.name)).to.deep.equal([`Site of ${orgId}`]);
    }
  });
});

/**
 * Files that open transactions across tenants, with the number of their calls, by the reason why they may. A new call is a
 * decision: count it here only if there is no other way.
 */
const ACROSS_TENANTS: readonly { why: string; files: Record<string, number> }[] = [
  {
    why: 'The command line of the operator works on the whole installation, without signing in.',
    files: {
      'cli/audit/installation-audit.ts': 1,
      'cli/demo/data.ts': 3,
      'cli/demo/work.ts': 1,
      'cli/installation-backup/restore-backup.ts': 1,
      'cli/installation-backup/run-backup.ts': 1,
      'cli/run-api-keys.ts': 3,
      'cli/run-init.ts': 1,
    },
  },
  {
    why: 'A rollout upgrades devices of all tenants, and what decides about upgrades is read once for all of them.',
    files: {
      'features/agent-upgrades/known-releases.ts': 1,
      'features/agent-upgrades/offer-cache.queries.ts': 1,
      'features/agent-upgrades/rollout.work.ts': 2,
      'features/agent-upgrades/upgrade.work.ts': 3,
    },
  },
  {
    why: 'One round checks the devices of all organizations.',
    files: {
      'features/alert-rules/alert-rule.work.ts': 1,
      'features/alert-rules/figure-watch.ts': 2,
      'features/alert-rules/rule-book.queries.ts': 2,
      'features/alert-rules/watched-filters.ts': 2,
    },
  },
  {
    why: 'The devices of maintenance windows are determined without a request.',
    files: {
      'features/maintenance-windows/maintenance-window.queries.ts': 1,
    },
  },
  {
    why: 'Reports are mailed without a request: what is due is found for all tenants, and each report is read by the rights of a person.',
    files: {
      'features/reports/report-schedule.work.ts': 2,
    },
  },
  {
    why: 'What a terminal shows is recorded, and its end, although its person may have lost the right to see it. Terminals without a viewer are ended for all tenants.',
    files: {
      'features/terminals/terminal-store.ts': 3,
      'features/terminals/terminal.work.ts': 1,
    },
  },
  {
    why: 'A key is found by its hash, before its tenant is known.',
    files: {
      'features/api-keys/api-key-callers.ts': 2,
    },
  },
  {
    why: 'The chains of all tenants are sealed, checked, indexed and pruned in rounds; exports of a chain are noted in it.',
    files: {
      'features/audit/audit-pruner.ts': 2,
      'features/audit/audit.queries.ts': 1,
      'features/audit/audit.routes.ts': 1,
      'features/audit/audit.work.ts': 2,
      'features/audit/chain-writer.queries.ts': 2,
      'features/audit/chain-writer.ts': 1,
      'features/audit/export.service.ts': 2,
      'features/audit/name-index.ts': 6,
      'features/audit/prune-chain.ts': 1,
      'features/audit/signing-keys.ts': 1,
      'features/audit/stored-check.ts': 1,
      'features/audit/verification.service.ts': 2,
    },
  },
  {
    why: 'A person signs in before their tenants are known, and a session belongs to a person, who may have several.',
    files: {
      'features/auth/mfa.service.ts': 3,
      'features/auth/passkey-ceremonies.ts': 4,
      'features/auth/passkey.service.ts': 2,
      'features/auth/password.service.ts': 3,
      'features/auth/sign-in-limits.ts': 1,
      'features/auth/sign-in-trail.ts': 1,
      'features/auth/sign-in.service.ts': 8,
    },
  },
  {
    why: 'Jobs, snapshots and keys of all tenants are handled in the background; the key of a repository may belong to the organization that its device has left.',
    files: {
      'features/backup/alerts.ts': 2,
      'features/backup/job-feed.ts': 2,
      'features/backup/job-settle.ts': 2,
      'features/backup/job.work.ts': 3,
      'features/backup/key-rotation.work.ts': 6,
      'features/backup/maintenance.work.ts': 4,
      'features/backup/repository-access.ts': 10,
      'features/backup/retention.service.ts': 7,
      'features/backup/scheduler.ts': 1,
      'features/backup/snapshot-reconciliation.work.ts': 7,
      'features/backup/restore.work.ts': 1,
      'features/backup/test-restore.ts': 1,
      'features/backup/vault-sync.ts': 3,
      'features/backup/vault.work.ts': 4,
      'features/backup/verification.work.ts': 4,
      'features/backup/watch.work.ts': 6,
    },
  },
  {
    why: 'Standing questions of all tenants are asked by the server; the rights of whoever made one are looked up by the account alone.',
    files: { 'features/event-log-questions/question.work.ts': 3 },
  },
  {
    why: 'One job counts the devices, alerts and backups of all organizations each hour, and stores sums only.',
    files: { 'features/fleet-trends/trend.job.ts': 3 },
  },
  {
    why: 'A credential opens one repository, before its tenant is known; quotas and upkeep concern all repositories.',
    files: {
      'features/backup-store/quota.ts': 1,
      'features/backup-store/store.queries.ts': 2,
      'features/backup-store/upkeep.work.ts': 6,
    },
  },
  {
    why: 'Runs and clean-ups of all organizations; the callback of a provider is found by its state alone.',
    files: {
      'features/cloud-backup/consent.service.ts': 3,
      'features/cloud-backup/content-store.ts': 4,
      'features/cloud-backup/job.work.ts': 2,
      'features/cloud-backup/readiness.ts': 2,
    },
  },
  {
    why: 'The services that devices report are stored in batches, for all tenants at once.',
    files: {
      'features/device-services/service-store.ts': 1,
    },
  },
  {
    why: 'The ledger is read and written for the devices of all tenants at once.',
    files: {
      'features/commands/command-ledger.ts': 4,
    },
  },
  {
    why: 'Presence is written in batches, maintenance ends by a round, agents authenticate before their tenant is known, and search is filled for all tenants.',
    files: {
      'features/devices/agent-credentials.ts': 3,
      'features/devices/device-search.work.ts': 2,
      'features/devices/device.queries.ts': 1,
      'features/devices/maintenance.work.ts': 2,
      'features/devices/presence-store.ts': 9,
    },
  },
  {
    why: 'Executions continue without a request, and plans of every organization may be due.',
    files: {
      'features/disaster-recovery/advance-execution.ts': 2,
      'features/disaster-recovery/execution.work.ts': 5,
    },
  },
  {
    why: 'A machine enrolls with a key, before its tenant is known, and may be known to another organization.',
    files: {
      'features/enrollment/candidates.queries.ts': 1,
      'features/enrollment/enroll.service.ts': 1,
    },
  },
  {
    why: 'Dynamic groups of all organizations follow the devices that have changed.',
    files: {
      'features/groups/dynamic-group-sync.ts': 2,
    },
  },
  {
    why: 'The devices are read once for all subscriptions of a node; each receives what it may see.',
    files: {
      'features/devices/fleet.queries.ts': 2,
    },
  },
  {
    why: 'Samples of many devices are added in one statement, and packed, summed up and dropped for all tenants.',
    files: {
      'features/metrics/metric-days.job.ts': 1,
      'features/metrics/metric-days.queries.ts': 4,
      'features/metrics/metric-import.ts': 1,
      'features/metrics/metric-store.ts': 1,
      'features/metrics/metric.job.ts': 2,
      'features/metrics/metric.queries.ts': 7,
    },
  },
  {
    why: 'The oldest logs are removed of all organizations that chose so, and partitions hold logs of all organizations.',
    files: {
      'features/logs/make-room.job.ts': 3,
      'features/logs/log-partition.queries.ts': 6,
    },
  },
  {
    why: 'Restores of machines are handed over and ended in the background, for all tenants.',
    files: {
      'features/machine-recovery/bare-metal.service.ts': 3,
      'features/machine-recovery/disaster-recovery.ts': 1,
      'features/machine-recovery/vm-restore.work.ts': 2,
    },
  },
  {
    why: 'A registration has no tenant before it is confirmed.',
    files: {
      'features/registration/confirmation.ts': 1,
      'features/registration/registration.service.ts': 5,
    },
  },
  {
    why: 'Releases and their keys belong to no tenant; they are downloaded without signing in.',
    files: {
      'features/releases/installer.routes.ts': 1,
      'features/releases/operator.ts': 5,
      'features/releases/release-sync.ts': 2,
      'features/releases/release-sync.work.ts': 1,
      'features/releases/release.routes.ts': 1,
      'features/releases/release.service.ts': 3,
    },
  },
  {
    why: 'A sign-in is found by its state or code, before its tenant is known; domains and providers of all tenants are checked in rounds.',
    files: {
      'features/sso/branding.service.ts': 1,
      'features/sso/enforcement.ts': 2,
      'features/sso/health.work.ts': 2,
      'features/sso/saml.ts': 2,
      'features/sso/sign-in-state.ts': 2,
      'features/sso/sign-in.service.ts': 7,
      'features/sso/sso.work.ts': 2,
    },
  },
  {
    why: 'A person may have memberships in tenants that the caller does not see.',
    files: {
      'features/users/user.service.ts': 6,
    },
  },
  {
    why: 'A job knows a script run by its id; what cannot be started fails for all tenants, and one job runs the schedules of all. The commands are added within the tenant.',
    files: {
      'features/script-runs/script-run.job.ts': 3,
      'features/script-schedules/schedule.job.ts': 2,
    },
  },
  {
    why: 'One dispatcher sends the events of all tenants, and partitions hold those of all.',
    files: {
      'features/webhooks/webhook-partition.queries.ts': 3,
      'features/webhooks/webhook.queries.ts': 5,
      'features/webhooks/webhook.work.ts': 1,
      'features/work/work.queries.ts': 3,
    },
  },
  {
    why: 'The rounds decide who is told about the alerts of all tenants, and what is told is sent for all.',
    files: {
      'features/notifications/delivery.work.ts': 4,
      'features/notifications/notification.work.ts': 6,
    },
  },
  {
    why: 'Jobs, retention, secrets and signing keys are those of the installation; public routes receive `ctx.withSystem`.',
    files: {
      'platform/db/dump.ts': 1,
      'platform/http/mount.ts': 1,
      'platform/jobs/job.queries.ts': 3,
      'platform/jobs/row-pruner.ts': 2,
      'platform/secrets/reseal.ts': 3,
      'platform/secrets/stored-signing-keys.ts': 1,
    },
  },
  {
    why: 'The link of the demo signs in a person of any tenant.',
    files: {
      'server/services.ts': 2,
    },
  },
];

describe('the way across tenants', () => {
  const src = fileURLToPath(new URL('../../../src', import.meta.url));
  const sources = readdirSync(src, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts'))
    .map((file) => ({
      file: file.split(path.sep).join('/'),
      text: readFileSync(path.join(src, file), 'utf8'),
    }));

  it('is taken in the places listed here, and in no other', () => {
    const found: Record<string, number> = {};
    for (const { file, text } of sources) {
      const calls = text.match(/(?<!function )\bwithSystem(?:Statements?(?:<[^()]+>)?)?\(/g)?.length ?? 0;
      if (calls > 0) found[file] = calls;
    }
    expect(found).to.deep.equal(
      Object.fromEntries(ACROSS_TENANTS.flatMap(({ files }) => Object.entries(files))),
    );
  });

  it('is not taken by functions of the database but these', async () => {
    const database = await createTestDatabase();
    const found = await asOwner<{ name: string; owner: string; public: boolean }>(
      database.ownerUrl,
      `select p.proname as name, p.proowner::regrole::text as owner, has_function_privilege('public', p.oid, 'execute') as public
      from pg_proc p where p.prosecdef and p.pronamespace = 'public'::regnamespace order by 1`,
    );
    const owner = new URL(database.ownerUrl).username;
    await database.drop();
    expect(found).to.deep.equal(
      [
        { name: 'account_for_invitation', public: false },
        // Tables belong to the owner of the database, so that only it can create and drop their partitions.
        { name: 'add_partitions', public: false, owner },
        // Answers about the caller's own tenant.
        { name: 'app_org_ids', public: true },
        // Answers who knows the credential of a backup repository, and only after its secret was compared.
        { name: 'backup_store_request', public: false },
        // A cap is one of all organizations of a partner, of which the caller may see some.
        // What ends with a person, a provider or a device is not seen by whoever ends it.
        // What was sent, or is to be, ends with its webhook and its event, whoever deletes these.
        { name: 'delete_deliveries_of_events', public: false },
        { name: 'delete_deliveries_of_webhook', public: false },
        // What a device has sent ends with it, whoever deletes it.
        { name: 'delete_logs_of_device', public: false },
        { name: 'drop_partition', public: false, owner },
        { name: 'drop_partitions', public: false, owner },
        { name: 'end_open_links', public: false },
        { name: 'end_second_factors', public: false },
        // What a device reports meets rules of the partner, which its organization does not see.
        { name: 'end_service_matches', public: false },
        { name: 'end_sessions_of_provider', public: false },
        { name: 'end_store_credentials_of_device', public: false },
        // Adds a job with the deed of a tenant, who sees none.
        { name: 'enqueue_job', public: false },
        // Work follows its command, whoever changes that.
        { name: 'follow_command_of_work', public: false },
        { name: 'follow_use_of_snapshot', public: false },
        { name: 'follow_vm_restore_command', public: false },
        // The rules may be those of the partner, which the organization does not see.
        { name: 'forget_figures_of_restored_device', public: false },
        // Whoever ends work may not see what waits for it.
        { name: 'free_dependent_work', public: false },
        // Tenants only read what their devices are found by.
        { name: 'keep_device_search_addresses', public: false },
        { name: 'keep_device_search_facts', public: false },
        // Tenants remove rows of maintenance, and write nothing of what is kept of it.
        { name: 'keep_past_maintenance', public: false },
        { name: 'lock_device_caps', public: false },
        { name: 'match_service_rules', public: false },
        { name: 'match_software_rules', public: false },
        // The history of a device follows it, whoever moves it.
        { name: 'move_logs_of_device', public: false },
        { name: 'move_metric_days', public: false },
        { name: 'move_metric_history', public: false },
        { name: 'note_alert_rule_checks', public: false },
        // A person who causes an alert may not see whom it is told to, nor those whom a policy of theirs names.
        { name: 'notification_alerts_changed', public: false },
        { name: 'notification_alerts_moved', public: false },
        { name: 'notification_alerts_raised', public: false },
        { name: 'notification_channel_names', public: false },
        { name: 'notification_people', public: false },
        // Rules of its own, which whoever creates an organization need not be allowed to write.
        { name: 'organization_begins_with_alert_rules', public: false },
        // Of the partner's record, its organizations' members read this and nothing else.
        { name: 'partner_agent_updates', public: false },
        { name: 'person_holder', public: false },
        { name: 'person_still_holds', public: false },
        // A person who causes an event may not see the webhooks that want it.
        { name: 'record_webhook_event', public: false },
        { name: 'record_webhook_event_of_partners', public: false },
        // With the end of a command its secrets, which no tenant reads.
        { name: 'remove_command_secrets', public: false },
        // The name and the branding of the provider of an organization, which the caller has joined it to.
        { name: 'report_provider', public: false },
        { name: 'role_in_use', public: false },
        { name: 'rules_for_reported', public: false },
        { name: 'session_holder', public: false },
        // Answers with a yes or no.
        { name: 'site_exists', public: true },
        { name: 'webhook_audit_sealed', public: false },
      ].map((one) => ({ owner: 'svc_system', ...one })),
    );
  });

  it('is never taken by naming the role', () => {
    const naming = sources.filter(({ text }) => /set\s+(local\s+|session\s+)?role\b/i.test(text));
    expect(naming.map(({ file }) => file)).to.deep.equal(['platform/db/transaction.ts']);
  });
});
