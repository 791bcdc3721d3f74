import { expect } from 'chai';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { readConfig } from '../../../src/config.ts';
import { Site } from '../../../src/features/sites/site.model.ts';
import { openPool, type Db } from '../../../src/platform/db/pool.ts';
import { runPrepared } from '../../../src/platform/db/prepared.ts';
import { UnsafeDatabaseError } from '../../../src/platform/db/roles.ts';
import type { Statement } from '../../../src/platform/db/statement.ts';
import type { TenantScope } from '../../../src/platform/db/tenant-scope.ts';
import { withSystem, withSystemStatement, withTenant } from '../../../src/platform/db/transaction.ts';
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

  it('goes on where the role is a plain member of svc_app', async () => {
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
      (error: Error) => error.message,
    );
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

/** Each crosses tenants. A new one is a decision: count it here, after asking whether it must be. */
const ACROSS_TENANTS: Record<string, number> = {
  'cli/demo/backup.ts': 1,
  'cli/demo/data.ts': 2,
  'cli/demo/releases.ts': 1,
  // The command line of the operator, who runs the whole installation: backup, restore, doctor, administrators.
  'cli/audit/verify-database.ts': 1,
  // The first provider, organization, site and key of an installation.
  'cli/init/set-up.ts': 1,
  'cli/installation-backup/restore-backup.ts': 1,
  'cli/installation-backup/write-backup.ts': 1,
  'features/audit/reading/last-operator-entry.ts': 1,
  'features/audit/verification/audit-state.ts': 1,
  'features/audit/verification/last-verifications.ts': 1,
  'features/devices/agent-versions.ts': 1,
  'features/users/accounts/system-admins.ts': 4,
  'platform/db/dump/dump-database.ts': 1,
  'platform/jobs/queue-state.ts': 1,
  // One round through the devices of all organizations.
  'features/alerts/alert-rounds.ts': 1,
  'features/api-keys/api-key-callers.ts': 1,
  'features/api-keys/key-usage.ts': 1,
  // Chains of all tenants are sealed in one batch, and checked and exported by the command line.
  'features/audit/retention/archive.ts': 2,
  'features/audit/audit.routes.ts': 1,
  'features/audit/export/export-bundle.ts': 1,
  // Names of all chains are put on sheets in one round.
  'features/audit/name-index/name-index-compactor.ts': 2,
  // The names in what waits behind a batch, of whichever chains.
  'features/audit/sealing/prefetch-name-index.ts': 1,
  // An operator's export of a whole chain, noted in that chain.
  'features/audit/export/record-bundle-export.ts': 1,
  // Whose entries have had their time, and their check before they go.
  'features/audit/retention/audit-pruner.ts': 2,
  'features/audit/retention/prune-chain.ts': 1,
  'features/audit/sealing/seal-batch.ts': 2,
  'features/audit/storage/signing-keys.ts': 1,
  'features/audit/verification/stored-check.ts': 1,
  // Names of all chains that no entry uses any more.
  'features/audit/name-index/unused-names.ts': 4,
  'features/auth/sign-in/accept-invitation.service.ts': 3,
  'features/auth/sign-in/sign-in.service.ts': 4,
  'features/auth/mfa/mfa.service.ts': 2,
  'features/auth/password/forgotten-password.ts': 1,
  'features/auth/password/password.service.ts': 2,
  'features/auth/sign-in-limits.ts': 1,
  'features/auth/sign-in-trail.ts': 1,
  // A credential opens one repository and says nothing of its tenant; no tenant sees objects; quotas and upkeep are of
  // all repositories.
  // Jobs of all tenants are given to devices and settled in the background; the key of a repository can belong to the
  // organization that its device has left.
  'features/backup/jobs/background.ts': 5,
  'features/backup/jobs/prepare.ts': 2,
  'features/backup/jobs/returned-devices.ts': 1,
  'features/backup/jobs/scheduler.ts': 1,
  'features/backup/access/repository-passwords.ts': 1,
  'features/backup/bare-metal/recovery.service.ts': 3,
  'features/backup/vault-syncs/prepare-vault.ts': 2,
  'features/backup/vault-syncs/settle.ts': 3,
  'features/backup/vault-syncs/vault.jobs.ts': 5,
  'features/backup/access/make-repository.ts': 3,
  'features/backup/access/open-repository.ts': 3,
  // Repositories are looked after by the server, whosever they are.
  'features/backup/access/exclusive.ts': 3,
  'features/backup/live/long-work.ts': 2,
  'features/backup/maintenance/maintenance.jobs.ts': 1,
  'features/backup/maintenance/reindex.ts': 1,
  'features/backup/maintenance/prune.ts': 2,
  'features/backup/maintenance/retention.service.ts': 4,
  'features/backup/maintenance/set-aside.ts': 3,
  'features/backup/reconciliation/found-snapshots.ts': 3,
  'features/backup/reconciliation/reconcile-snapshots.ts': 4,
  'features/backup/recovery-work/read-guest.ts': 1,
  'features/backup/rotation/rotate-repository.ts': 4,
  'features/backup/rotation/rotation.jobs.ts': 2,
  'features/backup/verification/integrity.ts': 1,
  'features/backup/vm-restores/refresh.ts': 2,
  'features/backup/verification/test-restore.ts': 2,
  'features/backup/verification/verification.jobs.ts': 5,
  'features/backup/sla/breaches.ts': 1,
  // Alerts of all organizations follow what they are about.
  'features/backup/watch/destination-room.ts': 1,
  'features/backup/watch/stalled.ts': 1,
  'features/backup/watch/watch.jobs.ts': 5,
  'features/backup/store/records/objects.ts': 1,
  'features/backup/store/records/quota.ts': 1,
  'features/backup/store/upkeep/purge.ts': 1,
  'features/backup/store/upkeep/reconcile.ts': 4,
  'features/backup/store/upkeep/upkeep.ts': 1,
  'features/commands/command-ledger.ts': 4,
  'features/devices/credentials/cached-agent-credentials.ts': 3,
  'features/devices/presence/device-store.ts': 8,
  // Wherever maintenance is over; organization by organization where that fails.
  'features/devices/management/maintenance-end.ts': 2,
  'features/enrollment/candidates.ts': 1,
  'features/enrollment/enroll.service.ts': 1,
  // Runs and clean-ups of every organization; a callback is found by its state alone.
  'features/cloud-backup/care/care.job.ts': 2,
  'features/cloud-backup/connections/consent.service.ts': 3,
  'features/cloud-backup/content/clean-up.job.ts': 3,
  'features/cloud-backup/items/search-texts.job.ts': 1,
  'features/cloud-backup/work/schedule.job.ts': 1,
  'features/cloud-backup/work/work.job.ts': 1,
  // Executions of recovery plans go on without a request; plans of every organization may be due.
  'features/recovery/executions/work/advance.ts': 1,
  'features/recovery/executions/work/due-rehearsals.ts': 2,
  'features/recovery/executions/work/leftovers.ts': 2,
  'features/recovery/executions/work/read-guest.ts': 1,
  'features/recovery/executions/work/recovery.jobs.ts': 1,
  // Which dynamic groups there are, and whose the devices are that have changed.
  'features/groups/dynamic-group-sync.ts': 2,
  // Once for all who follow conditions on a node, each of whom is shown what they may see.
  'features/live-filters/fleet-store.ts': 2,
  'features/registration/confirmation-mail.ts': 1,
  // What public routes are given, as `ctx.withSystem`.
  'features/registration/registration.service.ts': 5,
  // Releases belong to no tenant; they are downloaded before anybody signs in.
  // The installation script names the promoted executables, which are everyone's.
  'features/releases/installers/installer.service.ts': 1,
  'features/releases/registry/operator.ts': 5,
  'features/releases/registry/release.routes.ts': 1,
  'features/releases/registry/release.service.ts': 2,
  'features/releases/registry/unused-file.ts': 1,
  'features/releases/sync/fetch-release.ts': 1,
  'features/releases/sync/release-sync.ts': 1,
  'features/releases/sync/sync.job.ts': 1,
  // Tenants cannot read the keys that sign releases.
  'features/releases/targets/release-trust.ts': 1,
  // A rollout upgrades the devices of all tenants.
  'features/releases/rollout-control/conductor.ts': 2,
  // What decides about the upgrades of all devices; what they report of them, and what they do not end themselves.
  'features/releases/upgrades/board/board-reader.ts': 1,
  'features/releases/upgrades/upgrade-ends.ts': 2,
  'features/releases/upgrades/upgrade-history.ts': 1,
  // What the login page of the only partner looks like, before anybody signs in.
  'features/sso/branding/login-context.ts': 1,
  // Every proved domain is checked.
  'features/sso/domains/domain-checks.job.ts': 2,
  // The operator's command, which works without signing in.
  'features/sso/enforcement/operator.ts': 2,
  // Every active identity provider is checked.
  'features/sso/health/health-round.ts': 2,
  // A sign-in is found by its state, its code or its organization alone, before anybody knows whose it is.
  'features/sso/sign-in/callback.service.ts': 4,
  'features/sso/sign-in/exchange.service.ts': 1,
  'features/sso/sign-in/login.service.ts': 2,
  'features/sso/sign-in/sso-trail.ts': 1,
  'features/sso/saml/park-response.ts': 1,
  'features/sso/saml/saml-protocol.ts': 1,
  'features/sso/flow/start-sign-in.ts': 1,
  'features/users/accounts/user.service.ts': 2,
  // What the triggers have written for all tenants is sent by one dispatcher.
  'features/webhooks/sending/fan-out.ts': 1,
  'features/webhooks/sending/lease.ts': 2,
  'features/webhooks/sending/record.ts': 2,
  'features/webhooks/sending/serve-webhook.ts': 1,
  // Which organization keeps its rows for how long, and what each removes.
  'platform/db/retention/row-pruner.ts': 2,
  'platform/http/mount/mount.ts': 1,
  // Jobs of all partners are claimed, renewed and ended.
  'platform/jobs/job-store.ts': 2,
  'platform/secrets/reseal.ts': 3,
  // Signing keys are the installation's.
  'platform/secrets/stored-signing-keys.ts': 1,
  'server/services.ts': 1,
  // The link of the demo: it signs a person in who may be of any tenant.
  'server/sign-in-link.ts': 1,
};

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
      const calls = text.match(/\bwithSystem(?:Statement(?:<\w+>)?)?\(/g)?.length ?? 0;
      if (calls > 0) found[file] = calls;
    }
    expect(found).to.deep.equal(ACROSS_TENANTS);
  });

  it('is not taken by functions of the database but these', async () => {
    const database = await createTestDatabase();
    const found = await asOwner<{ name: string; owner: string; public: boolean }>(
      database.ownerUrl,
      `select p.proname as name, p.proowner::regrole::text as owner, has_function_privilege('public', p.oid, 'execute') as public
      from pg_proc p where p.prosecdef and p.pronamespace = 'public'::regnamespace order by 1`,
    );
    await database.drop();
    expect(found).to.deep.equal(
      [
        { name: 'account_for_invitation', public: false },
        // Answers about the caller's own tenant.
        { name: 'app_org_ids', public: true },
        // Answers who knows the credential of a backup repository, and only after its secret was compared.
        { name: 'backup_store_request', public: false },
        // A cap is one of all organizations of a partner, of which the caller may see some.
        // What ends with a person, a provider or a device is not seen by whoever ends it.
        { name: 'end_open_links', public: false },
        { name: 'end_sessions_of_provider', public: false },
        { name: 'end_store_credentials_of_device', public: false },
        // Adds a job with the deed of a tenant, who sees none.
        { name: 'enqueue_job', public: false },
        // A backup job follows its command, whoever changes that.
        { name: 'follow_backup_command', public: false },
        { name: 'follow_database_restore', public: false },
        { name: 'follow_restore_advance', public: false },
        { name: 'follow_restore_command', public: false },
        { name: 'follow_use_of_snapshot', public: false },
        { name: 'follow_vault_command', public: false },
        { name: 'follow_vm_restore_command', public: false },
        { name: 'lock_device_caps', public: false },
        // Of the partner's record, its organizations' members read this and nothing else.
        { name: 'partner_agent_updates', public: false },
        { name: 'person_holder', public: false },
        { name: 'person_still_holds', public: false },
        // A person who causes an event may not see the webhooks that want it.
        { name: 'record_webhook_event', public: false },
        { name: 'record_webhook_event_of_partners', public: false },
        // With the end of a command its secrets, which no tenant reads.
        { name: 'remove_command_secrets', public: false },
        { name: 'role_in_use', public: false },
        { name: 'session_holder', public: false },
        // Answers with a yes or no.
        { name: 'site_exists', public: true },
        { name: 'webhook_audit_sealed', public: false },
      ].map((one) => ({ ...one, owner: 'svc_system' })),
    );
  });

  it('is never taken by naming the role', () => {
    const naming = sources.filter(({ text }) => /set\s+(local\s+|session\s+)?role\b/i.test(text));
    expect(naming.map(({ file }) => file)).to.deep.equal(['platform/db/transaction.ts']);
  });
});
