import { expect } from 'chai';
import { inTenant } from '../../src/platform/db/statement.ts';
import { UNPROTECTED_TABLES } from '../../src/platform/db/roles.ts';
import { withTenant } from '../../src/platform/db/transaction.ts';
import type { TenantScope } from '../../src/platform/db/tenant-scope.ts';
import { newId } from '../../src/platform/ids.ts';
import { openPool, type Db } from '../../src/platform/db/pool.ts';
import { asOwner, createTestDatabase, type TestDatabase } from '../support/test-postgres.ts';

/** What every table owes, read from the catalogue of a fully migrated database. */

interface Column {
  name: string;
  type: string;
  nullable: boolean;
  hasDefault: boolean;
  length: number | null;
}

/** Values that a column's type alone does not give: they satisfy a check of the table. */
const SPECIAL: Record<string, Record<string, unknown>> = {
  stored_log_days: { day: '2026-01-01' },
  c2c_connections: { provider: 'microsoft_365', auth_method: 'platform_app' },
  c2c_job_facts: { type: 'backup', trigger: 'manual' },
  c2c_outcomes: { kind: 'mail' },
  c2c_cursors: { kind: 'mail' },
  c2c_items: { kind: 'mail' },
  backup_database_instances: { engine: 'postgresql' },
  backup_machines: { hypervisor: 'hyperv' },
  partners: { type: 'msp', plan: 'free', status: 'active' },
  organizations: { type: 'customer', status: 'active' },
  users: { status: 'active' },
  partner_users: { org_access: 'all' },
  roles: { scope: 'organization', partner_id: null },
  script_schedules: { catch_up_minutes: 60 },
  script_runs: { language: 'bash', version: '0'.repeat(64), org_ids: `{${newId()}}` },
  devices: { condition: 'normal', os_type: 'linux', architecture: 'x64' },
  device_presence: { state: 'connected', reason: 'connected' },
  presence_changes: { state: 'connected' },
  metric_retention: { minute_days: 14 },
  enrollment_keys: { max_usage: 1 },
  audit_logs: { actor_type: 'user', result: 'success', partner_id: null },
  audit_outbox: { actor_type: 'user', result: 'success', partner_id: null },
  scripts: { language: 'bash' },
  sso_providers: { type: 'saml' },
  backup_configs: { provider: 'server' },
  custom_fields: { key: 'asset_tag', type: 'string' },
  diagnostic_logs: { level: 'info' },
  event_logs: { level: 'info', category: 'system' },
  software_changes: { change: 'installed' },
  device_services: { state: 'running', start_mode: 'automatic' },
  device_service_reports: { manager: 'systemd' },
  alert_rules: { severity: 'high', condition_kind: 'offline', alert_kind: 'device_offline' },
  alerts: { kind: 'device_offline', severity: 'high' },
  device_groups: { type: 'static', filter_id: null },
  background_jobs: { state: 'queued', lease_id: null, expires_at: null },
  device_group_changes: { change: 'joined', reason: 'manual' },
  device_upgrades: { component: 'agent', state: 'downloading', finished_at: null },
  backup_store_credentials: { role: 'device', as_of: null },
  backup_job_facts: { type: 'manual' },
  backup_restore_facts: { overwrite: 'never' },
  backup_vm_restores: { kind: 'as_vm', hypervisor: 'kvm', operation: 'restore' },
  backup_recovery_tokens: { restore_type: 'bare_metal' },
  backup_vaults: { provider: 'server', retention_count: 3, max_lag_hours: 48 },
  backup_vault_sync_facts: { reason: 'manual' },
  backup_snapshots: { engine_id: 'a'.repeat(64) },
  dr_pinned_scripts: { sha256: 'a'.repeat(64), language: 'bash' },
  dr_executions: { execution_type: 'rehearsal', trigger: 'manual' },
  notification_channels: { type: 'email' },
  notification_outbox: { change: 'raised' },
  notification_groups: { due_at: '2026-01-01T00:00:00Z' },
  notification_group_alerts: { status: 'active' },
  notifications: { reason: 'test', severity: 'info' },
  dr_actions: { kind: 'restore', phase: 'main' },
  backup_verification_facts: { verification_type: 'integrity' },
  past_maintenance: { begins_at: '2000-01-01T00:00:00Z', device_ids: `{${newId()}}` },
  fleet_days: { day: '2026-01-31' },
  backup_usage_days: { provider: 'server', day: '2026-01-31' },
  backup_sla_events: { event_type: 'rpo_breach' },
};

/** Grants a tenant does not have on purpose: there the right refusal is "permission denied". */
const NO_UPDATE = new Set([
  'audit_logs',
  'command_transitions',
  'diagnostic_logs',
  'event_logs',
  'software_titles',
  'software_changes',
  'device_group_changes',
  'fleet_days',
  'c2c_consents',
  'dr_pinned_scripts',
  'webhook_events',
  'maintenance_members',
  'alert_rule_checks',
  'watched_filter_members',
  'device_services',
  'terminal_parts',
  'device_service_reports',
  'device_search_facts',
  'notifications',
  'notification_group_alerts',
  'device_metric_averages',
  'past_maintenance',
  'metric_samples',
  'metric_minutes',
  'metric_days',
  'metric_quarters',
  'metric_hours',
  'presence_changes',
]);

describe('the database', () => {
  let database: TestDatabase;
  let app: Db;

  before(async () => {
    database = await createTestDatabase();
    app = openPool(database.appUrl, { max: 2, name: 'contract' });
  });
  after(async () => {
    await app.destroy();
    await database.drop();
  });

  const owner = <Row extends object>(sql: string, values?: unknown[]) =>
    asOwner<Row & Record<string, unknown>>(database.ownerUrl, sql, values);
  const tables = async () =>
    (
      await owner<{ name: string; enabled: boolean; forced: boolean }>(
        `select relname as name, relrowsecurity as enabled, relforcerowsecurity as forced from pg_class
        where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') order by 1`,
      )
    ).filter(({ name }) => !UNPROTECTED_TABLES.includes(name));

  it('protects every table, by force, and lets tenants into each by a policy only', async () => {
    const all = await tables();
    expect(all.length).to.be.greaterThan(10);
    for (const { name, enabled, forced } of all) expect([enabled, forced], name).to.deep.equal([true, true]);
    const policies = await owner<{ tablename: string; roles: string[] }>(
      `select tablename, roles::text[] from pg_policies where schemaname = 'public'`,
    );
    for (const { name } of all) {
      expect(
        policies.some(({ tablename, roles }) => tablename === name && roles.includes('svc_system')),
        name,
      ).to.equal(true);
    }
    for (const { roles } of policies) expect(roles).not.to.include('public');
  });

  it('lets a tenant read a table only by what belongs to the caller, except two that are the same for all', async () => {
    const open = async () => {
      const policies = await owner<{ tablename: string; qual: string | null }>(
        `select tablename, qual from pg_policies where schemaname = 'public' and 'svc_app' = any(roles)`,
      );
      expect(policies.length).to.be.greaterThan(50);
      // The functions app_org_ids(), app_user_id() and their like return what belongs to the caller of a transaction.
      const isOpen = ({ qual }: { qual: string | null }) =>
        qual !== null && !/\bapp_\w+\(|^false$/.test(qual);
      return [...new Set(policies.filter(isOpen).map(({ tablename }) => tablename))].sort();
    };
    expect(await open()).to.deep.equal(['agent_releases', 'agent_rollouts']);
    await owner(`create table leak_key (id uuid primary key, note text)`);
    await owner(`select protect_table('leak_key', 'true')`);
    expect(await open()).to.include('leak_key');
    await owner(`drop table leak_key`);
  });

  it('grants the serving role nothing but rows: no truncate, no table of the exempt list to write', async () => {
    const grants = await owner<{ table_name: string; privilege_type: string }>(
      `select table_name, privilege_type from information_schema.role_table_grants where grantee in ('svc_app', 'svc_system', 'PUBLIC') and table_schema = 'public'`,
    );
    for (const { table_name: name, privilege_type: privilege } of grants) {
      expect(privilege, name).to.be.oneOf(
        UNPROTECTED_TABLES.includes(name) ? ['SELECT'] : ['SELECT', 'INSERT', 'UPDATE', 'DELETE'],
      );
    }
  });

  it('announces changes of every table that says who may do what', async () => {
    const [holders] = await owner<{ sources: string }>(
      `select string_agg(prosrc, ' ') as sources from pg_proc where proname in ('person_holder', 'session_holder')`,
    );
    const names = new Set((await tables()).map(({ name }) => name));
    const words = new Set((holders?.sources ?? '').split(/[^a-z_]+/));
    const deciding = [...words].filter((word) => names.has(word));
    expect(deciding).to.include.members(['sessions', 'users', 'roles', 'partner_users', 'organizations']);
    const announced = await owner<{ name: string; delete: boolean; update: boolean }>(
      `select c.relname as name, bool_or(t.tgtype & 8 > 0) as delete, bool_or(t.tgtype & 16 > 0) as update
      from pg_trigger t join pg_class c on c.oid = t.tgrelid join pg_proc p on p.oid = t.tgfoid
      where p.proname = 'announce_access_change' group by 1`,
    );
    const byName = new Map(announced.map((table) => [table.name, table]));
    for (const name of [...deciding, 'api_keys', 'agent_credentials']) {
      expect(byName.get(name)?.update, `${name} announces updates`).to.equal(true);
      // These are never deleted while somebody's rights come from them.
      if (['roles', 'partners', 'organizations'].includes(name)) continue;
      expect(byName.get(name)?.delete, `${name} announces deletes`).to.equal(true);
    }
  });

  it('has no view that runs with its owner’s rights, and no materialized view', async () => {
    const views = await owner<{ name: string }>(
      `select relname as name from pg_class where relnamespace = 'public'::regnamespace
        and (relkind = 'm' or (relkind = 'v' and not coalesce(reloptions::text[] @> '{security_invoker=true}', false)))`,
    );
    expect(views).to.deep.equal([]);
  });

  it('lets policies compare with a value computed once, never a function of the row', async () => {
    const policies = await owner<{ tablename: string; qual: string }>(
      `select tablename, qual from pg_policies where roles = '{svc_app}'`,
    );
    for (const { tablename, qual } of policies) {
      expect(qual.replaceAll(/\( ?SELECT app_\w+\(\)[^)]*\)/g, 'VALUE'), tablename).not.to.match(/app_\w+\(/);
    }
  });

  it('ties whatever belongs to a site, device or group to its organization as well', async () => {
    const keys = await owner<{ definition: string; child: string }>(
      `select conrelid::regclass::text as child, pg_get_constraintdef(oid) as definition from pg_constraint
      where contype = 'f' and confrelid in ('sites'::regclass, 'devices'::regclass, 'device_groups'::regclass)`,
    );
    expect(keys.length).to.be.greaterThan(2);
    for (const { definition, child } of keys) {
      expect(definition, child).to.match(/FOREIGN KEY \(org_id, \w+\) REFERENCES \w+\(org_id, id\)/);
    }
  });

  it('takes the presence of a device that moves along last: heartbeats of others wait for that row', async () => {
    // Keys work in the order of the names of their triggers, which have the numbers in which they were made.
    const moved = await owner<{ name: string }>(
      `select tgconstrrelid::regclass::text as name from pg_trigger
      where tgrelid = 'devices'::regclass and tgfoid = '"RI_FKey_cascade_upd"'::regproc order by tgname`,
    );
    expect(moved.length).to.be.greaterThan(5);
    expect(
      moved.at(-1)?.name,
      'create the key of device_presence again behind yours: rule 7 of docs/decisions/migrations.md',
    ).to.equal('device_presence');
  });

  it('knows of every table with partitions by time how long they are, so that they can be created', async () => {
    const tables = await owner<{ name: string; span: string | null }>(
      `select c.relname as name, partition_span(c.relname)::text as span
      from pg_partitioned_table p join pg_class c on c.oid = p.partrelid
      where c.relnamespace = 'public'::regnamespace and p.partstrat = 'r'`,
    );
    expect(tables.length).to.be.greaterThan(5);
    const unknown = tables.filter(({ span }) => span === null).map(({ name }) => name);
    expect(unknown, 'a migration that replaces partition_span has to name all tables').to.deep.equal([]);
  });

  it('indexes every table of an organization by it first', async () => {
    const unindexed = await owner<{ name: string }>(
      `select c.relname as name from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'org_id'
      where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition and not exists (
        select from pg_index i where i.indrelid = c.oid and i.indkey[0] = a.attnum)`,
    );
    // roles: a few rows a tenant. The others are reached by device or command, and kept free of indexes for writing.
    expect(unindexed.map(({ name }) => name)).to.have.members([
      'roles',
      'command_transitions',
      'diagnostic_logs',
      'event_logs',
      'metric_samples',
      'metric_minutes',
      'metric_days',
      'metric_quarters',
      'metric_hours',
      'presence_changes',
      // Reached by webhook, and by delivery.
      'webhook_deliveries',
      'webhook_events',
      // Reached by chain.
      'audit_outbox',
      'audit_logs',
    ]);
  });

  describe('shows no tenant a row of another', () => {
    for (const axis of ['org_id', 'partner_id'] as const) {
      it(`on ${axis}`, async () => {
        const walked = await owner<{ name: string }>(
          `select c.relname as name from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = $1 and not a.attisdropped
          where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
            -- A table whose rows all have an organization is walked by that one.
            and (a.attname = 'org_id' or not exists (select from pg_attribute o
              where o.attrelid = c.oid and o.attname = 'org_id' and o.attnotnull))
          order by 1`,
          [axis],
        );
        expect(walked.length).to.be.greaterThan(axis === 'org_id' ? 5 : 2);
        const faults: string[] = [];
        for (const { name } of walked) faults.push(...(await walk(name, axis)));
        expect(faults).to.deep.equal([]);
      });
    }

    it('and the walk finds what is left open on purpose', async () => {
      await owner(`create table leak_none (id uuid primary key, org_id uuid not null, note text)`);
      await owner(`grant select, insert, update, delete on leak_none to svc_app`);
      await owner(`create table leak_all (like leak_none including all)`);
      await owner(`select protect_table('leak_all', 'true')`);
      for (const name of ['leak_none', 'leak_all']) {
        const faults = await walk(name, 'org_id');
        expect(faults.length, name).to.be.greaterThan(3);
        await owner(`drop table ${name}`);
      }
    });
  });

  it('shows nothing at all to a transaction without a tenant', async () => {
    const partner = newId();
    await plant('partners', { id: partner });
    const rows = await app.raw('select count(*)::int as n from partners');
    expect(rows.rows[0].n).to.equal(0);
    expect(
      inTenant(
        { scope: 'partner', userId: null, partnerId: partner, orgAccess: 'all', orgIds: [] },
        'd.org_id',
      ),
    ).to.contain('app_org_ids');
  });

  const columnsOf = (table: string) =>
    owner<Column & object>(
      `select a.attname as name, t.typname as type, not a.attnotnull as nullable, a.atthasdef or a.attidentity <> '' as "hasDefault",
        case when a.atttypmod > 4 then a.atttypmod - 4 end as length
      from pg_attribute a join pg_type t on t.oid = a.atttypid
      where a.attrelid = $1::regclass and a.attnum > 0 and not a.attisdropped order by a.attnum`,
      [table],
    );

  /** Inserts a row made from the column types, past foreign keys. */
  async function plant(table: string, given: Record<string, unknown>): Promise<void> {
    const row = await rowFor(table, given);
    const names = Object.keys(row);
    await owner(
      `begin; set local session_replication_role = replica; ${literalInsert(table, names, row)}; commit`,
    );
  }

  async function rowFor(table: string, given: Record<string, unknown>): Promise<Record<string, unknown>> {
    const row: Record<string, unknown> = {};
    for (const { name, type, nullable, hasDefault, length } of await columnsOf(table)) {
      if (name in given) row[name] = given[name];
      else if (SPECIAL[table]?.[name] !== undefined) row[name] = SPECIAL[table][name];
      else if (!nullable && !hasDefault) row[name] = valueOf(type, length);
    }
    return row;
  }

  async function walk(table: string, axis: 'org_id' | 'partner_id'): Promise<string[]> {
    const faults: string[] = [];
    const [mine, theirs] = [newId(), newId()];
    const ours = await rowFor(table, { [axis]: mine });
    const foreign = await rowFor(table, { [axis]: theirs });
    await plant(table, ours);
    await plant(table, foreign);
    const scope: TenantScope =
      axis === 'org_id'
        ? { scope: 'organization', userId: null, partnerId: null, orgAccess: 'listed', orgIds: [mine] }
        : { scope: 'partner', userId: null, partnerId: mine, orgAccess: 'all', orgIds: [] };
    const granted = await owner<{ ok: boolean }>(
      `select has_table_privilege('svc_app', $1, 'select') as ok`,
      [table],
    );
    if (granted[0]?.ok !== true) return faults;

    const count = (tenant: TenantScope, value: string) =>
      withTenant(app, tenant, async (tx) =>
        Number((await tx.raw(`select count(*) as n from ${table} where ${axis} = ?`, [value])).rows[0].n),
      );
    if ((await count(scope, mine)) === 0) {
      faults.push(`${table}: does not show its own row, so the rest proves nothing`);
    }
    if ((await count(scope, theirs)) > 0) faults.push(`${table}: shows a foreign row`);
    const nobody: TenantScope = {
      scope: 'organization',
      userId: null,
      partnerId: null,
      orgAccess: 'listed',
      orgIds: [],
    };
    if ((await count(nobody, theirs)) > 0) faults.push(`${table}: shows a row to nobody`);

    const attempt = async (what: string, sql: string): Promise<{ rows: number } | { code: string }> =>
      withTenant(app, scope, async (tx) => ({
        rows: (await tx.raw(sql.replaceAll('?', '\\?'))).rowCount as number,
      })).catch((error: { code: string }) => {
        if (typeof error.code !== 'string') throw new Error(`${table}: ${what}`, { cause: error });
        return { code: error.code };
      });
    const touched = (result: { rows: number } | { code: string }) => 'rows' in result && result.rows > 0;
    const denied = (result: { rows: number } | { code: string }) =>
      'code' in result && result.code === '42501';

    const update = await attempt(
      'update',
      `update ${table} set ${axis} = ${axis} where ${axis} = '${theirs}'`,
    );
    if (touched(update) || ('code' in update && !NO_UPDATE.has(table))) {
      faults.push(
        touched(update)
          ? `${table}: updates a foreign row`
          : `${table}: an update fails (${JSON.stringify(update)}); add a table that tenants may not update to NO_UPDATE`,
      );
    }
    if (touched(await attempt('delete', `delete from ${table} where ${axis} = '${theirs}'`))) {
      faults.push(`${table}: deletes a foreign row`);
    }
    const moved = await attempt(
      'move',
      `update ${table} set ${axis} = '${theirs}' where ${axis} = '${mine}'`,
    );
    if (!denied(moved)) faults.push(`${table}: moves its row to another tenant: ${JSON.stringify(moved)}`);
    const another = await rowFor(table, { [axis]: theirs });
    const inserted = await attempt('insert', literalInsert(table, Object.keys(another), another));
    if (!denied(inserted)) faults.push(`${table}: inserts for another tenant: ${JSON.stringify(inserted)}`);
    return faults;
  }
});

function literalInsert(table: string, names: string[], row: Record<string, unknown>): string {
  const literals = names.map((name) => literal(row[name]));
  return `insert into ${table} (${names.map((name) => `"${name}"`).join(', ')}) values (${literals.join(', ')})`;
}

function literal(value: unknown): string {
  if (value === null || value === undefined) return 'null';
  return `'${(typeof value === 'string' ? value : JSON.stringify(value)).replaceAll("'", "''")}'`;
}

let unique = 0;
function valueOf(type: string, length: number | null): unknown {
  const text = `${++unique}-${newId()}`;
  if (type === 'uuid') return newId();
  if (type.startsWith('_')) return '{}';
  if (type === 'jsonb') return '{}';
  if (/^(int|float|numeric)/.test(type)) return '1';
  if (type === 'bool') return 'true';
  if (type.startsWith('timestamp')) return new Date().toISOString();
  return text.slice(0, length ?? 60);
}
