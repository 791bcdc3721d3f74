import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { RETENTION_POLICIES } from '../../src/features/retention-policies.ts';
import { type TableAccess, tableAccess } from './table-access.ts';

/**
 * A table belongs to one feature, and only that feature's code names it in SQL or hands it to Knex. Other features go
 * through the owner's door. The exceptions are listed here with their reasons; a new one needs a reason too.
 */

/** Joins cannot pass through a door, and these are what rows of every feature are joined with. */
const READ_BY_ALL = ['partners', 'organizations', 'devices', 'device_presence'];

const READS: Readonly<Record<string, readonly string[]>> = {
  // The name and address of the person who made a key, did a deed or signs in.
  'api-keys': ['users'],
  audit: ['users'],
  auth: ['users', 'system_users', 'partner_users', 'organization_users'],
  // Schedules go by the time zone of a device's site, and their targets follow the members of groups. What a device reports
  // about a test restore is in its command, which one statement reads for dashboards with the verification. Snapshots are
  // compared with the objects in their repositories, and the feed of jobs has the restores of machines. Alerts name devices
  // whose work has stalled, and what has failed in a week is found by the index of the work of a device.
  backup: [
    'sites',
    'device_group_members',
    'commands',
    'backup_repositories',
    'backup_objects',
    'backup_store_credentials',
    'backup_vm_restores',
    'backup_recovery_tokens',
    'work',
  ],
  // Quotas count what cloud backups have stored.
  'backup-store': ['c2c_stores'],
  // The list of commands names the script that each of them runs.
  commands: ['scripts'],
  // Rounds compare what stands with what has to be raised, leave out the devices of maintenance windows, count events, and look up services, all
  // in sets. A preview does the same with the past. A filter that is used is looked up with the rules that use it.
  'alert-rules': [
    'alerts',
    'maintenance_members',
    'event_logs',
    'software_changes',
    'device_services',
    'saved_filters',
  ],
  // A condition becomes one SQL predicate over everything that a device is known by. What a list of devices shows of each is
  // selected with it.
  conditions: [
    'device_group_members',
    'device_software',
    'software_titles',
    'maintenance_members',
    'device_metric_averages',
  ],
  // A target names sites and groups, whose existence one statement checks, and their devices are found by joins.
  'device-targets': ['sites', 'device_groups', 'device_group_members'],
  // A list of the repositories that have snapshots of databases.
  'database-backup': ['backup_snapshots'],
  // A device's page lists its groups, and a move checks which groups the device leaves. Search finds devices by the addresses
  // of their inventories.
  devices: ['device_group_members', 'device_groups', 'device_inventory'],
  // A filter names sites and groups, whose existence one statement checks.
  filters: ['sites', 'device_groups'],
  groups: ['saved_filters'],
  // A filter that is used is looked up with the windows that use it.
  'maintenance-windows': ['saved_filters'],
  // Messages name alerts and the site that they share, and reach people at the address of their account.
  notifications: ['alerts', 'sites', 'users'],
  organizations: ['partner_users'],
  // One output of each group is read from the command that has it, and a list names the people who started the runs.
  'script-runs': ['commands', 'users'],
  // Whose people sign in with which provider, and who of them is an administrator.
  sso: ['users', 'system_users', 'partner_users', 'organization_users', 'roles'],
  // A list names the scripts and the people by whose rights they run, and a filter that is used is looked up with the schedules.
  'script-schedules': ['scripts', 'users', 'saved_filters'],
  // Joined to show what a person may do where.
  users: ['roles', 'sessions', 'mfa_challenges', 'passkeys', 'password_resets', 'registrations', 'user_mfa'],
};

/** Each of these should become a function of the owner's. The list may only become shorter. */
const WRITES: Readonly<Record<string, readonly string[]>> = {
  // One statement compares snapshots with objects, and makes repositories due for a prune or holds their trash.
  backup: ['backup_repositories'],
  // Inventory and custom fields keep their values in the device's row.
  inventory: ['devices'],
  'custom-fields': ['devices'],
  // A device that moves to another organization leaves its groups in the same transaction.
  devices: ['device_group_members', 'device_group_changes'],
  // A new organization is added to the access lists of its partner's people.
  organizations: ['partner_users'],
  // One output of each group is read from the command that has it, and a list names the people who started the runs.
  'script-runs': ['commands', 'users'],
  // Ending an account's credentials ends everything that could restore them.
  users: ['sessions', 'mfa_challenges', 'passkeys', 'password_resets', 'registrations', 'user_mfa'],
};

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const owners = new Map(
  Object.entries(RETENTION_POLICIES).flatMap(([feature, lives]) =>
    lives.map(({ table }) => [table, feature]),
  ),
);

/** The feature that a file belongs to, or the part of the house that may own no table at all. */
const partOf = (file: string) => file.match(/^src\/features\/([^/]+)\//)?.[1] ?? file.split('/')[1] ?? file;

const serverFiles = readdirSync(path.join(ROOT, 'src'), { recursive: true, encoding: 'utf8' })
  .map((file) => path.posix.join('src', ...file.split(path.sep)))
  .filter((file) => /^src\/(features|hub|platform|cli|server|[^/]+\.ts)/.test(file) && file.endsWith('.ts'));

const isAllowed = (part: string, { table, kind }: TableAccess) => {
  if (owners.get(table) === part) return true;
  if (kind === 'write') return WRITES[part]?.includes(table) === true;
  return (
    READ_BY_ALL.includes(table) || READS[part]?.includes(table) === true || WRITES[part]?.includes(table)
  );
};

describe('a table', function () {
  this.timeout(120_000);
  it('is touched by the feature that owns it, and by those that are listed with a reason', () => {
    const known = new Set(owners.keys());
    const breaches = serverFiles.flatMap((file) =>
      tableAccess(file, readFileSync(path.join(ROOT, file), 'utf8'), known)
        .filter((access) => !isAllowed(partOf(file), access))
        .map(({ table, kind }) => `${file} ${kind}s ${table}, which belongs to ${owners.get(table)}`),
    );
    expect(breaches, `\n${breaches.join('\n')}\n`).to.deep.equal([]);
  });
});

describe('the check of table owners', () => {
  const known = new Set(['devices', 'sites', 'users']);
  const access = (text: string) => tableAccess('src/features/a/a.ts', text, known);

  const reads = [
    'const sql = `select 1 from devices d`',
    "const sql = 'select 1 from other o join devices using (id)'",
    'const sql = `select 1 from other o, devices d where true`',
    'const sql = `select ${columns} from other where exists (select from devices)`',
    "ctx.tx('devices as d').where({})",
    "tx.select('id').from('devices')",
    "tx('other').leftJoin('devices as d', 'd.id', 'other.id').first()",
    "class Device extends BaseModel { static override tableName = 'devices' }",
  ];
  for (const text of reads) {
    it(`finds a read in ${text}`, () => {
      expect(access(text)).to.deep.include({ table: 'devices', kind: 'read' });
      expect(access(text).filter(({ kind }) => kind === 'write')).to.deep.equal([]);
    });
  }

  const writes = [
    'const sql = `update devices set name = ${name}`',
    "const sql = 'insert into devices (id) values (1)'",
    'const sql = `with gone as (delete from devices where true returning id) select * from gone`',
    "ctx.tx('devices').where({ id }).update({ name })",
    "tx.insert(rows).into('devices')",
    "trx('devices').where({ id }).delete()",
    "tx('devices').join('sites', 's.id', 'site_id').update({ name })",
  ];
  for (const text of writes) {
    it(`finds a write in ${text}`, () => {
      const found = access(text).filter(({ kind }) => kind === 'write');
      expect(found).to.deep.equal([{ table: 'devices', kind: 'write' }]);
    });
  }

  it('takes a sentence for no SQL', () => {
    expect(
      access("route({ summary: 'Events from devices', description: 'Update users of sites' })"),
    ).to.deep.equal([]);
  });
});
