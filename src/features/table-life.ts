import type { RetentionRule, TableLife } from '../platform/db/retention.ts';
import { idempotencyRetention } from '../platform/http/idempotency.ts';
import { jobRetention } from '../platform/jobs/retention.ts';
import { alertRetention } from './alerts/index.ts';
import { authRetention } from './auth/index.ts';
import { commandRetention } from './commands/index.ts';
import { deviceRetention } from './devices/index.ts';
import { diagnosticLogRetention } from './diagnostic-logs/index.ts';
import { eventLogRetention } from './event-logs/index.ts';
import { groupRetention } from './groups/index.ts';
import { registrationRetention } from './registration/index.ts';
import { invitationRetention } from './users/index.ts';

/**
 * Every table with the feature that owns it, and what ends its rows. A table that is missing here fails
 * test/contract/table-life.test.ts. Why nothing may grow for ever: docs/decisions/row-life.md.
 */

const cascade = (table: string, parent: string): TableLife => ({ table, ends: 'cascade', with: parent });
const bounded = (table: string, because: string): TableLife => ({ table, ends: 'bounded', because });
const byRules = (rules: readonly RetentionRule[]): TableLife[] =>
  rules.map((rule) => ({ table: rule.table, ends: 'retention', rule }));

const SUBJECT = 'people make these, and they are what the product is about';
const ONE_PER_ORGANIZATION = 'an organization has at most one row';

export const TABLE_LIFE: Readonly<Record<string, readonly TableLife[]>> = {
  partners: [bounded('partners', SUBJECT)],
  organizations: [bounded('organizations', SUBJECT)],
  sites: [bounded('sites', SUBJECT)],
  roles: [bounded('roles', SUBJECT)],
  users: [
    bounded('users', SUBJECT),
    cascade('system_users', 'users'),
    cascade('partner_users', 'users'),
    cascade('organization_users', 'users'),
    ...byRules(invitationRetention),
    // Of releases before 0030; a person has at most one.
    cascade('invitations', 'users'),
  ],
  auth: [
    ...byRules(authRetention),
    cascade('user_mfa', 'users'),
    // Ten, which are replaced together.
    cascade('mfa_recovery_codes', 'user_mfa'),
  ],
  registration: byRules(registrationRetention),
  // Uses are counted in the key's own row.
  'api-keys': [cascade('api_keys', 'users')],
  enrollment: [bounded('enrollment_keys', 'people make them one by one')],
  devices: [
    bounded('devices', 'there is one for each machine, and a cap on them'),
    cascade('device_presence', 'devices'),
    ...byRules(deviceRetention),
  ],
  'custom-fields': [bounded('custom_fields', SUBJECT)],
  inventory: [
    cascade('device_inventory', 'devices'),
    cascade('device_software', 'devices'),
    // The newest thousand of a device are kept, by whoever adds some.
    cascade('software_changes', 'devices'),
    bounded('software_titles', 'one for each name, removed with the last device that has it'),
  ],
  groups: [
    bounded('device_groups', SUBJECT),
    cascade('device_group_members', 'device_groups'),
    ...byRules(groupRetention),
  ],
  filters: [bounded('saved_filters', SUBJECT)],
  scripts: [bounded('scripts', SUBJECT)],
  commands: [...byRules(commandRetention), cascade('command_transitions', 'commands')],
  alerts: [
    ...byRules(alertRetention),
    bounded('alert_settings', ONE_PER_ORGANIZATION),
    bounded('alert_rounds', 'it has one row'),
  ],
  'event-logs': byRules(eventLogRetention),
  'diagnostic-logs': byRules(diagnosticLogRetention),
  'log-retention': [bounded('log_retention', ONE_PER_ORGANIZATION)],
  audit: [
    { table: 'audit_logs', ends: 'retention', worker: 'AuditPruner' },
    { table: 'audit_actors', ends: 'retention', worker: 'AuditPruner' },
    { table: 'audit_resources', ends: 'retention', worker: 'AuditPruner' },
    { table: 'audit_name_sheets', ends: 'retention', worker: 'AuditPruner' },
    bounded('audit_outbox', 'the sealer empties it within a second'),
    bounded('audit_chain_heads', 'a chain has one row'),
    bounded(
      'audit_checkpoints',
      'one for each thousand entries or ten minutes, kept because it is the proof',
    ),
    bounded('audit_signing_keys', 'an operator makes them by hand'),
    bounded('audit_retention_policies', ONE_PER_ORGANIZATION),
  ],
  platform: [
    ...byRules([idempotencyRetention, ...jobRetention]),
    bounded('job_schedules', 'there is one for each recurring job of the program'),
  ],
};

/** In the order in which they are carried out. */
export const RETENTION_RULES: readonly RetentionRule[] = Object.values(TABLE_LIFE)
  .flat()
  .flatMap((life) => ('rule' in life ? [life.rule] : []));
