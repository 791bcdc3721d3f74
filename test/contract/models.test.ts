import { expect } from 'chai';
import { readdirSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { BaseModel } from '../../src/platform/db/base-model.ts';
import { RETENTION_POLICIES } from '../../src/features/retention-policies.ts';
import { asOwner, createTestDatabase } from '../support/test-postgres.ts';

/** Holds docs/decisions/objection.md: what is stored has a model, and no relation leads out of its tenant. */

/** Tables that only SQL reads and writes, with the reason. */
const SQL_ONLY: Readonly<Record<string, string>> = {
  audit_logs: 'hot path of the sealer',
  audit_actors: 'hot path of the sealer',
  audit_resources: 'hot path of the sealer',
  audit_name_sheets: 'written by the compactor',
  audit_outbox: 'hot path of every request',
  audit_chain_heads: 'locked by the sealer',
  audit_checkpoints: 'written by the sealer',
  audit_signing_keys: 'used by the sealer and the command line',
  release_syncs: 'a mark for each version, set and looked up by its key',
  release_signing_keys: 'used where releases are signed and verified, and by the command line',
  agent_rollout_halts: 'written by the conductor in the statement that halts',
  audit_retention_policies: 'read for all organizations at once by the pruner',
  command_secrets: 'written and read in sets with their commands',
  alert_rounds: 'one row, which the rounds lock',
  alert_settings: 'kept for the release before, which has no rules',
  alert_rule_matches: 'written and read as sets by the rounds and for each batch of figures',
  alert_rule_checks: 'written by a trigger, and taken as sets by the rounds',
  watched_filters: 'one statement makes them those that rules name',
  watched_filter_members: 'sets of members are compared and written whole',
  device_group_members: 'sets of members are compared and written whole',
  device_group_changes: 'written with the members',
  maintenance_members: 'sets of members are compared and written whole',
  past_maintenance: 'written by a trigger, and read as sets by reports',
  script_run_devices: 'written and read as sets of a run',
  idempotency_keys: 'owned by the HTTP pipeline',
  backup_usage_days: 'written and read as sums of days',
  fleet_days: 'written and read as sums of days',
  metric_samples: 'written and read as sets of packed rows',
  metric_minutes: 'written and read as sets of packed rows',
  metric_days: 'written and read as sets of packed rows',
  metric_quarters: 'written and read as sets of packed rows',
  metric_hours: 'written and read as sets of packed rows',
  device_metric_averages: 'written with what is packed, and read by conditions',
  device_search_facts: 'written by triggers and as sets, and read by the search',
  presence_changes: 'written as sets, and read beside the history of a device',
  metric_progress: 'one row, which the job that sums up changes',
  stored_log_days: 'written and read as sums of days',
  backup_objects: 'read and written by prepared statements, many times a second',
  backup_store_credentials: 'the store reads them by a function of the database',
  backup_schedule_slots: 'one upsert in the transaction that locks the configuration',
  c2c_consents: 'one statement takes or changes the one of a state',
  c2c_readiness: 'written as sets, and read through the overview of backups',
  c2c_outcomes: 'counted up beside what is counted',
  c2c_restored_items: 'written and read as sets of a restore',
  c2c_cursors: 'changed in the transaction that records a page',
  c2c_folders: 'upserts of a page, and paths by a recursive query',
  c2c_versions: 'written with the items of a page',
  c2c_version_blobs: 'written with the items of a page',
  c2c_blobs: 'written and found as sets, by hash',
  c2c_packs: 'written with the parts that they hold',
  c2c_stores: 'one counter of an organization',
  dr_pinned_scripts: 'kept in one statement with what scripts hold, so that contents need not be read',
  background_jobs: 'locked by the job runner',
  job_schedules: 'locked by the job runner',
  work_dependencies: 'counted by the statements of the work engine',
  work_holders: 'one lease of a process',
  saml_used_assertions: 'one insert that says whether the row is new',
  notification_outbox: 'written by triggers, and taken as sets by the rounds',
  notification_groups: 'locked and advanced as sets by the rounds',
  notification_group_alerts: 'joined and counted as sets by the rounds',
  invitations: 'no code uses it',
};

const SRC = fileURLToPath(new URL('../../src/features', import.meta.url));

/** Recognized by their members: the loader gives modules that are imported by a computed path a `BaseModel` of their own. */
const isModel = (value: unknown): value is typeof BaseModel =>
  typeof value === 'function' && 'getRelations' in value && Object.hasOwn(value, 'tableName');

async function allModels(): Promise<(typeof BaseModel)[]> {
  const files = readdirSync(SRC, { recursive: true, encoding: 'utf8' }).filter((file) =>
    file.endsWith('.model.ts'),
  );
  const modules = await Promise.all(
    files.map((file) => import(pathToFileURL(path.join(SRC, file)).href) as Promise<object>),
  );
  return modules.flatMap((module) => Object.values(module) as unknown[]).filter(isModel);
}

describe('models', () => {
  let models: (typeof BaseModel)[];
  let columns: Map<string, Set<string>>;

  before(async () => {
    models = await allModels();
    const database = await createTestDatabase();
    const rows = await asOwner<{ table: string; column: string }>(
      database.ownerUrl,
      `select table_name as table, column_name as column from information_schema.columns where table_schema = 'public'`,
    );
    await database.drop();
    columns = new Map();
    for (const { table, column } of rows) columns.set(table, (columns.get(table) ?? new Set()).add(column));
  });

  it('describe tables that exist, each by one model with its own key', () => {
    const tables = models.map(({ tableName }) => tableName);
    expect(tables).to.include.members(['devices', 'users', 'commands']);
    expect(tables).to.have.members([...new Set(tables)]);
    for (const { tableName, idColumn } of models) {
      const known = columns.get(tableName);
      expect(known, tableName).not.to.equal(undefined);
      expect([...(known ?? [])], tableName).to.include.members([idColumn].flat());
    }
  });

  it('join on the organization wherever both tables have one, so that a relation stays in its tenant', () => {
    const faults = models.flatMap((model) =>
      Object.values(model.getRelations()).flatMap(({ name, ownerProp, relatedProp, relatedModelClass }) => {
        const [own, related] = [model.tableName, relatedModelClass.tableName];
        const bothInTenants = [own, related].every((table) => columns.get(table)?.has('org_id'));
        const joinsOn = (column: string) =>
          ownerProp.cols.includes(column) && relatedProp.cols.includes(column);
        // A delivery of a webhook of the partner may carry an event of any of its organizations, and a schedule of the
        // partner has no organization.
        const ofPartner = /^(?:webhook_deliveries|script_schedules|script_schedule_secrets)$/;
        const joins = joinsOn(ofPartner.test(own) ? 'partner_id' : 'org_id');
        return bothInTenants && !joins && related !== 'roles' ? [`${model.name}.${name}`] : [];
      }),
    );
    expect(faults).to.deep.equal([]);
  });

  it('exist for every table but those that only SQL touches', () => {
    const described = new Set(models.map(({ tableName }) => tableName));
    const tables = Object.values(RETENTION_POLICIES)
      .flat()
      .map(({ table }) => table);
    expect(tables.filter((table) => !described.has(table))).to.have.members(Object.keys(SQL_ONLY));
  });

  it('refuse the relation loading that asks the database for columns', async () => {
    const [model] = models;
    await model?.fetchTableMetadata().then(
      () => expect.fail('it was allowed'),
      (error: Error) => expect(error.message).to.include('withGraphFetched'),
    );
  });
});
