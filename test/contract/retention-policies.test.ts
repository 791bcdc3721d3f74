import { existsSync } from 'node:fs';
import { expect } from 'chai';
import { RETENTION_RULES, RETENTION_POLICIES } from '../../src/features/retention-policies.ts';
import { newId } from '../../src/platform/ids.ts';
import {
  overdueOrganizations,
  overdueRows,
  removeOverdueRows,
} from '../../src/platform/db/retention-rule.ts';
import { UNPROTECTED_TABLES } from '../../src/platform/db/roles.ts';
import { RowPruner } from '../../src/platform/jobs/row-pruner.ts';
import { withSystem } from '../../src/platform/db/transaction.ts';
import { buildDevice, buildOrganization, buildTenant, type EnrolledDevice } from '../support/factories.ts';
import { quietLog, recordingLog } from '../support/quiet-log.ts';
import { asOwner } from '../support/test-postgres.ts';
import { createTestApp, type TestApp } from '../support/test-app.ts';

/** Every table has an owner and an end, and every row that is past its time is really removed. */

const lives = Object.values(RETENTION_POLICIES).flat();

const NEW_PROVIDER = (orgId: string) => `with made as (
      insert into sso_providers (id, org_id, name, type, attribute_mapping)
      values ($id, '${orgId}', 'Aged', 'saml', '{}') returning id)`;

/** Of each table that a rule prunes: how a row comes into it that has been past its time for so many days. */
const MAKE: Record<string, (device: EnrolledDevice, userId: string) => string> = {
  refresh_tokens: () => `insert into refresh_tokens (token_hash, session_id)
    select $token, id from sessions where user_agent = 'aged' order by id desc limit 1`,
  sessions: (_device, userId) => `insert into sessions (id, user_id, expires_at, user_agent)
    values ($id, '${userId}', $at, 'aged')`,
  password_resets: (_device, userId) => `insert into password_resets (token_hash, user_id, expires_at)
    values ($token, '${userId}', $at)`,
  mfa_challenges: (_device, userId) => `insert into mfa_challenges (token_hash, user_id, expires_at)
    values ($token, '${userId}', $at)`,
  passkey_challenges: () => `insert into passkey_challenges (challenge_hash, ceremony, expires_at)
    values ($token, 'sign_in', $at)`,
  sso_sessions: ({ orgId }) => `${NEW_PROVIDER(orgId)}
    insert into sso_sessions (id, provider_id, state, nonce, expires_at) select $id, id, $token, 'n', $at from made`,
  sso_exchange_codes: (_device, userId) => `insert into sso_exchange_codes
      (code_hash, session_id, refresh_token, expires_at)
    select $token, id, 'x', $at from sessions where user_id = '${userId}' and user_agent is null limit 1`,
  saml_used_assertions: ({ orgId }) => `${NEW_PROVIDER(orgId)}
    insert into saml_used_assertions (provider_id, assertion_hash, expires_at) select id, $token, $at from made`,
  registrations: () => `insert into registrations (token_hash, email, name, password_hash, expires_at)
    values ($token, 'aged@example.com', 'Aged', 'x', $at)`,
  membership_invitations: ({ orgId }) => `insert into membership_invitations
      (id, email, name, org_id, role_id, link_token_hash, mail_token_hash, expires_at)
    select $id, 'aged' || $id || '@example.com', 'Aged', '${orgId}', id, $token, $token, $at
    from roles where scope = 'organization' limit 1`,
  idempotency_keys: (
    _device,
    userId,
  ) => `insert into idempotency_keys (user_id, key, request_hash, created_at)
    values ('${userId}', $token, $token, $at)`,
  backup_store_credentials: ({ deviceId, orgId }) => `with made as (
      insert into backup_repositories (id, org_id, device_id) values ($id, '${orgId}', '${deviceId}') returning id)
    insert into backup_store_credentials (id, org_id, repository_id, secret_hash, role, expires_at)
    select $id, '${orgId}', id, $token, 'device', $at from made`,
  backup_vm_restores: ({ deviceId, orgId }) => `insert into backup_vm_restores
      (id, org_id, device_id, kind, hypervisor, vm_name, spec, operation, holds_snapshot, status, command_id, expires_at,
        finished_at)
    values ($id, '${orgId}', '${deviceId}', 'as_vm', 'kvm', 'A', '{}', 'restore', false, 'completed', $id, $at, $at)`,
  backup_recovery_tokens: ({ deviceId, orgId }) => `with repository as (
      insert into backup_repositories (id, org_id, device_id) values ($id, '${orgId}', '${deviceId}') returning id),
    snapshot as (
      insert into backup_snapshots (id, org_id, device_id, repository_id, engine_id, received_at)
      select $id, '${orgId}', '${deviceId}', id, replace($id::text, '-', '') || replace($id::text, '-', ''), $at
      from repository returning id)
    insert into backup_recovery_tokens (id, org_id, device_id, snapshot_id, restore_type, token_hash, expires_at, created_at)
    select $id, '${orgId}', '${deviceId}', id, 'bare_metal', $id::text, $at, $at from snapshot`,
  work: ({ deviceId, orgId }) => `insert into work
      (id, kind, partner_id, org_id, device_id, input, step, stage, status, deadline_at, finished_at)
    select $id, 'verification', partner_id, id, '${deviceId}', '{}', 'verify', 'ended', 'completed', $at, $at
    from organizations where id = '${orgId}'`,
  backup_sla_events: ({ deviceId, orgId }) => `insert into backup_sla_events
      (id, org_id, device_id, event_type, resolved_at)
    values ($id, '${orgId}', '${deviceId}', 'rpo_breach', $at)`,
  backup_usage_days: ({ orgId }) => `insert into backup_usage_days (org_id, day, provider, bytes, snapshots)
    values ('${orgId}', ($at)::date, 'server', 0, 0)`,
  fleet_days: ({ orgId }) => `insert into fleet_days (org_id, day) values ('${orgId}', ($at)::date)`,
  c2c_consents: ({ orgId }, userId) => `insert into c2c_consents
      (id, org_id, session_id, display_name, state_hash, nonce, code_verifier, expires_at)
    select $id, '${orgId}', id, 'Aged', $token, 'n', 'v', $at from sessions
    where user_id = '${userId}' and user_agent is null limit 1`,
  event_log_questions: ({ orgId }) => `insert into event_log_questions
      (id, partner_id, org_id, target, query, at_most_rows, days, ends_at, author_name)
    select $id, partner_id, id, '{"all":true}', '{"name":"System"}', 50, 1, $at, 'Aged'
    from organizations where id = '${orgId}'`,
  maintenance_windows: ({
    orgId,
  }) => `insert into maintenance_windows (id, partner_id, org_id, name, target, timezone,
      start, duration_minutes, suppress_alerts, suppress_upgrades, due_at, over_since)
    select $id, partner_id, id, $token, '{"all":true}', 'UTC', '2026-01-01T00:00', 1, true, true, null, $at
    from organizations where id = '${orgId}'`,
  past_maintenance: ({ orgId }) => `insert into past_maintenance (id, org_id, begins_at, ends_at, device_ids)
    values ($id, '${orgId}', '2000-01-01', $at, array[$id]::uuid[])`,
  notifications: ({ orgId }) => `insert into notifications
      (id, partner_id, org_id, reason, status, recipient, title, severity, alert_count, created_at)
    select $id, partner_id, id, 'test', 'failed', 'Room', 't', 'info', 0, $at from organizations where id = '${orgId}'`,
  notification_groups: ({ orgId }) => `insert into notification_groups
      (id, partner_id, org_id, policy_id, key, title, state, began_at, closed_at)
    select $id, partner_id, id, $id, 'k', 't', 'closed', $at, $at from organizations where id = '${orgId}'`,
  dr_executions: ({ orgId }) => `insert into dr_executions
      (id, org_id, plan_name, execution_type, trigger, status, groups, finished_at)
    values ($id, '${orgId}', 'Aged', 'rehearsal', 'manual', 'completed', '[]', $at)`,
  background_jobs: () => `insert into background_jobs
      (id, name, state, input, max_attempts, deadline, finished_at, expires_at)
    values ($id, 'aged', 'succeeded', '{}', 1, $at, $at, $at)`,
  agent_credentials: ({
    deviceId,
    orgId,
  }) => `insert into agent_credentials (token_hash, device_id, org_id, revoked_at)
    values ($token, '${deviceId}', '${orgId}', $at)`,
  device_group_changes: ({ deviceId, orgId }) => `with made as (
      insert into device_groups (id, org_id, name) values ($id, '${orgId}', $token) returning id)
    insert into device_group_changes (org_id, group_id, device_id, hostname, change, reason, at)
    select '${orgId}', id, '${deviceId}', 'h', 'joined', 'manual', $at from made`,
  commands: ({ deviceId, orgId }) => `insert into commands (id, org_id, device_id, type, payload, status,
      timeout_seconds, expires_at, finished_at)
    values ($id, '${orgId}', '${deviceId}', 'agent.ping', '{}', 'succeeded', 60, $at, $at)`,
  // Its devices were all refused.
  script_runs: ({
    orgId,
  }) => `insert into script_runs (id, partner_id, org_ids, script_name, language, content,
      os_types, timeout_seconds, version, target, created_at, expires_at)
    select $id, partner_id, array[id], 's', 'bash', 'true', '{}', 60, $token, '{"all":true}', $at, $at
    from organizations where id = '${orgId}'`,
  alerts: ({ orgId }) => `insert into alerts (id, org_id, kind, severity, status, title, message, resolved_at)
    values ($id, '${orgId}', 'disk_full', 'low', 'resolved', 't', 'm', $at)`,
  device_upgrades: ({
    deviceId,
    orgId,
  }) => `insert into device_upgrades (id, org_id, device_id, component, attempt_id,
      target_version, state, started_at, finished_at)
    values ($id, '${orgId}', '${deviceId}', 'agent', $id, '1.0.0', 'completed', $at, $at)`,
  stored_log_days: ({ deviceId, orgId }) => `insert into stored_log_days (device_id, org_id, day)
    values ('${deviceId}', '${orgId}', ($at)::date)`,
  terminals: (
    { deviceId, orgId },
    userId,
  ) => `insert into terminals (id, org_id, device_id, opened_in, user_id, user_name, user_email, resume_token_hash,
      cols, rows, sealed_key, opened_at, ended_at, end_reason)
    values ($id, '${orgId}', '${deviceId}', '${orgId}', '${userId}', 'Aged', 'aged@example.com', $token, 80, 24, 'x',
      $at, $at, 'closed')`,
};
/** A token is as old as its session, so its session is made first. */
const ORDER = ['sessions', ...Object.keys(MAKE).filter((table) => table !== 'sessions')];

describe('the life of rows', function () {
  this.timeout(120_000);
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let device: EnrolledDevice;

  before(async () => {
    app = await createTestApp();
    tenant = await buildTenant(app);
    device = await buildDevice(app, tenant.orgId);
  });
  after(async () => app.close());

  const owner = <Row extends object>(sql: string) =>
    asOwner<Row & Record<string, unknown>>(app.database.ownerUrl, sql);
  const make = async (table: string, days: number, where = device) => {
    const sql = MAKE[table]!(where, tenant.admin.id)
      .replaceAll('$id', `'${newId()}'`)
      .replaceAll('$token', `'${newId().replaceAll('-', '').repeat(2)}'`)
      .replaceAll('$at', `now() - interval '${days} days'`);
    await owner(sql);
  };
  const countOf = async (table: string, orgId?: string) =>
    (
      await owner<{ n: number }>(
        `select count(*)::int as n from ${table}${orgId === undefined ? '' : ` where org_id = '${orgId}'`}`,
      )
    )[0]!.n;
  const pruner = (options: Partial<ConstructorParameters<typeof RowPruner>[0]> = {}) =>
    new RowPruner({
      db: app.server.database.hubPool,
      rules: RETENTION_RULES,
      log: quietLog,
      pauseMs: 0,
      ...options,
    });

  it('is declared for every table, once, by a feature that there is', async () => {
    const tables = await owner<{ name: string }>(
      `select relname as name from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p')
        and not relispartition`,
    );
    const names = tables.map(({ name }) => name).filter((name) => !UNPROTECTED_TABLES.includes(name));
    expect(lives.map(({ table }) => table)).to.have.members(names);
    for (const feature of Object.keys(RETENTION_POLICIES)) {
      expect(
        feature === 'platform' ||
          [feature, `${feature}.ts`].some((name) => existsSync(`src/features/${name}`)),
        feature,
      ).to.equal(true);
    }
  });

  it('ends with the parent only if a foreign key sees to that', async () => {
    const keys = await owner<{ child: string; parent: string }>(
      `select conrelid::regclass::text as child, confrelid::regclass::text as parent from pg_constraint
      where contype = 'f' and confdeltype = 'c'`,
    );
    for (const life of lives) {
      if (life.ends !== 'cascade') continue;
      expect(keys, life.table).to.deep.include({ child: life.table, parent: life.with });
    }
  });

  it('has a reason for each table whose rows nothing removes', () => {
    for (const life of lives) {
      if (life.ends === 'bounded') expect(life.because.length, life.table).to.be.greaterThan(10);
    }
  });

  it('is over by rules that an index serves, so that a round does not read whole tables', async () => {
    for (const rule of RETENTION_RULES) {
      const statements = [
        removeOverdueRows(rule, rule.days),
        ...(rule.organization === undefined ? [] : [overdueOrganizations(rule)]),
      ];
      for (const statement of statements) {
        const plan = await withSystem(app.server.database.hubPool, 'test', async (tx) => {
          await tx.raw('set local enable_seqscan = off');
          const { rows } = await tx.raw(
            `explain ${statement}`,
            statement.includes('?') ? [tenant.orgId] : [],
          );
          return (rows as { 'QUERY PLAN': string }[]).map((row) => row['QUERY PLAN']).join('\n');
        });
        expect(plan, statement).not.to.match(new RegExp(`Seq Scan on ${rule.table} old`));
        expect(overdueRows(rule, rule.days)).to.contain('limit');
      }
    }
  });

  it('has a case below for each table with a rule', () => {
    expect(Object.keys(MAKE), 'add each table with a retention rule to MAKE in this file').to.have.members(
      RETENTION_RULES.map(({ table }) => table),
    );
  });

  it('ends in each table after its days, and not before', async () => {
    const days = new Map(RETENTION_RULES.map((rule) => [rule.table, rule.days]));
    const before = new Map<string, number>();
    for (const table of ORDER) before.set(table, await countOf(table));
    for (const age of [1, -1]) for (const table of ORDER) await make(table, days.get(table)! + age);
    for (const table of ORDER) expect(await countOf(table), table).to.equal(before.get(table)! + 2);
    const { removed, failed } = await pruner().prune();
    expect(failed).to.equal(0);
    for (const table of ORDER) {
      expect(removed[table], table).to.equal(1);
      expect(await countOf(table), table).to.equal(before.get(table)! + 1);
    }
    expect((await pruner().prune()).removed).to.satisfy((again: Record<string, number>) =>
      Object.values(again).every((count) => count === 0),
    );
  });

  it('takes the transitions of a command along, and keeps what has not ended', async () => {
    await owner(`insert into commands (id, org_id, device_id, type, payload, timeout_seconds, created_at, expires_at)
      values ('${newId()}', '${device.orgId}', '${device.deviceId}', 'agent.ping', '{}', 60, now() - interval '900 days',
        now() + interval '1 day')`);
    const [steps, commands] = [await countOf('command_transitions'), await countOf('commands')];
    await make('commands', 400);
    expect(await countOf('command_transitions')).to.be.greaterThan(steps);
    await pruner().prune();
    expect([await countOf('command_transitions'), await countOf('commands')]).to.deep.equal([
      steps,
      commands,
    ]);
  });

  it('does not end for a resolved alert whose cause lasts, which keeps it from being raised again', async () => {
    await make('alerts', 400);
    await owner(`update alerts set cause_lasts = true where resolved_at < now() - interval '399 days'`);
    const before = await countOf('alerts');
    await pruner().prune();
    expect(await countOf('alerts')).to.equal(before);
  });

  it('does not end early for a session that is in use, however old it is', async () => {
    await owner(`insert into sessions (id, user_id, created_at, expires_at, user_agent)
      values ('${newId()}', '${tenant.admin.id}', now() - interval '90 days', now() + interval '1 hour', 'in use')`);
    await pruner().prune();
    expect(await owner(`select 1 as one from sessions where user_agent = 'in use'`)).to.have.length(1);
  });

  describe('with an organization that fails', () => {
    it('ends in the others all the same, and the failure is logged with its name', async () => {
      const [bad, good] = [
        await buildDevice(app, await buildOrganization(app, tenant.partnerId)),
        await buildDevice(app, await buildOrganization(app, tenant.partnerId)),
      ];
      for (const one of [bad, good]) await make('commands', 400, one);
      await owner(`create function refuse_one() returns trigger language plpgsql as $$
        begin
          if old.org_id = '${bad.orgId}' then raise exception 'this one is damaged'; end if;
          return old;
        end $$;
        create trigger refuse_one before delete on commands for each row execute function refuse_one()`);
      const { log, lines } = recordingLog();
      try {
        const round = await pruner({ log }).prune();
        expect(round.failed).to.equal(1);
      } finally {
        await owner('drop function refuse_one cascade');
      }
      expect([await countOf('commands', bad.orgId), await countOf('commands', good.orgId)]).to.deep.equal([
        1, 0,
      ]);
      expect(
        lines.filter(({ event }) => event === 'database.rows_not_pruned').map(({ orgId }) => orgId),
      ).to.deep.equal([bad.orgId]);
      expect((await pruner().prune()).removed['commands']).to.equal(1);
    });
  });

  it('ends a batch at a time, and organizations take turns', async () => {
    const devices = [
      await buildDevice(app, await buildOrganization(app, tenant.partnerId)),
      await buildDevice(app, await buildOrganization(app, tenant.partnerId)),
    ];
    for (const one of devices) for (let n = 0; n < 5; n++) await make('alerts', 400, one);
    await owner(`create table removals (no bigint generated always as identity, tx bigint, org_id uuid);
      grant insert on removals to svc_system;
      create function note_removal() returns trigger language plpgsql as $$
        begin insert into removals (tx, org_id) values (txid_current(), old.org_id); return old; end $$;
      create trigger note_removal before delete on alerts for each row execute function note_removal()`);
    try {
      const rules = RETENTION_RULES.filter(({ table }) => table === 'alerts').map((rule) => ({
        ...rule,
        atOnce: 2,
      }));
      await pruner({ rules }).prune();
      const batches = await owner<{ n: number; orgId: string }>(
        `select count(*)::int as n, org_id as "orgId" from removals group by tx, org_id order by min(no)`,
      );
      expect(batches.map(({ n }) => n)).to.deep.equal([2, 2, 2, 2, 1, 1]);
      expect(new Set(batches.slice(0, 2).map(({ orgId }) => orgId)).size).to.equal(2);
    } finally {
      await owner('drop function note_removal cascade; drop table removals');
    }
  });
});
