import { readdirSync } from 'node:fs';
import path from 'node:path';

/** A part of the product that must be right, and the tests near it that have to notice when it is not. */
export interface Machine {
  name: string;
  /** The files whose code is changed. */
  mutate: readonly string[];
  /** The test files that are run against each change, without their tier: `test/unit/` or `test/server/`. */
  tests: readonly string[];
  /** Its tests use Postgres, which is started once for the whole run. */
  usesDatabase?: true;
}

/** The test file of that name, in whichever tier it lies. */
export function testFile(name: string): string {
  const [file, ...more] = ALL_TESTS.filter((test) => `/${test}`.endsWith(`/${name}.test.ts`));
  if (file === undefined || more.length > 0) {
    throw new Error(`There has to be one test file ${name}.test.ts.`);
  }
  return file;
}
const TEST = path.join(import.meta.dirname, '..');
const ALL_TESTS = readdirSync(TEST, { recursive: true, encoding: 'utf8' }).map((file) =>
  path.posix.join('test', ...file.split(path.sep)),
);

export const MACHINES: readonly Machine[] = [
  {
    name: 'device-actor',
    mutate: [
      'src/hub/device/device-actor.ts',
      'src/hub/device/mailbox.ts',
      'src/hub/device/pending-queries.ts',
      'src/hub/device/command-events.ts',
      'src/hub/device/actor-messages.ts',
      'src/hub/device/actor-registry.ts',
      'src/hub/device/heartbeat.ts',
      'src/hub/upgrades/held-offer.ts',
    ],
    tests: [
      'hub/device/device-actor',
      'hub/device/mailbox',
      'hub/device/actor-commands',
      'hub/device/actor-queries',
      'hub/device/actor-life',
    ],
  },
  {
    name: 'agent-inbox',
    mutate: ['src/hub/agents/agent-inbox.ts'],
    tests: ['hub/agents/agent-inbox'],
  },
  {
    name: 'presence-writer',
    mutate: [
      'src/hub/presence/presence-writer.ts',
      'src/hub/presence/address-history.ts',
      'src/hub/presence/lost-devices.ts',
      'src/hub/presence/live-presence.ts',
      'src/hub/presence/actor-reports.ts',
      'src/hub/presence/http-reports.ts',
      'src/hub/presence/reporting-devices.ts',
      'src/hub/presence/silence-sweep.ts',
    ],
    tests: [
      'hub/presence/presence-writer',
      'hub/presence/failed-flush',
      'hub/presence/http-reports',
      'hub/presence/actor-reports',
      'hub/presence/lost-devices',
      'hub/presence/marking-lost-devices',
    ],
  },
  {
    name: 'dispatcher',
    mutate: [
      'src/hub/commands/command-dispatcher.ts',
      'src/hub/commands/progress-throttle.ts',
      'src/hub/commands/undelivered-work.ts',
    ],
    tests: [
      'hub/commands/taking-commands',
      'hub/commands/undelivered-work',
      'hub/commands/flushed-progress',
      'hub/commands/progress-throttle',
      // Last, because it waits for real time.
      'hub/commands/command-dispatcher',
    ],
  },
  {
    name: 'updater',
    mutate: [
      'src/agent/capabilities/update/updater.ts',
      'src/agent/capabilities/update/download.ts',
      'src/agent/capabilities/update/offer.ts',
      'src/agent/capabilities/update/offer-file.ts',
      'src/agent/capabilities/update/stage.ts',
      'src/agent/capabilities/update/status-sender.ts',
      'src/agent/capabilities/update/update-fault.ts',
      'src/agent/capabilities/update/upgrade-state.ts',
      'src/agent/os/upgrades/failed-attempts.ts',
    ],
    tests: [
      'unit/agent/capabilities/update/download',
      'unit/agent/capabilities/update/offer',
      'unit/agent/capabilities/update/upgrade-state',
      // Last, because a change that stops the updater for ever ends by a time-out.
      'unit/agent/capabilities/update/updater',
    ],
  },
  {
    name: 'trial',
    mutate: [
      'src/watchdog/trial/judge.ts',
      'src/watchdog/trial/settle.ts',
      'src/watchdog/trial/trial-run.ts',
      'src/agent/os/upgrades/trial-file.ts',
      'src/agent/os/installation/proven-releases.ts',
    ],
    tests: ['unit/watchdog/trial-run', 'unit/watchdog/settle', 'unit/agent/os/installation/proven-releases'],
  },
  {
    name: 'access-rules',
    mutate: [
      'src/hub/access/access-change.ts',
      'src/hub/access/dashboard-access.ts',
      'src/hub/access/access-changes.ts',
      'src/platform/http/authentication.ts',
    ],
    tests: [
      'unit/hub/access/access-changes',
      'hub/access/connection-access',
      'hub/access/dashboard-access',
      'platform/authorize',
      'platform/authentication',
    ],
  },
  {
    name: 'backup-retention',
    mutate: ['src/features/backup/core/retention.ts'],
    tests: ['backup/retention-reasons', 'backup/core/retention'],
  },
  {
    name: 'schedules',
    mutate: [
      'src/features/backup/core/schedule.ts',
      'src/features/backup/core/local-time.ts',
      'src/platform/jobs/cron.ts',
      'src/platform/jobs/schedules.ts',
      'src/platform/jobs/back-off.ts',
    ],
    tests: [
      'backup/schedule-windows',
      'backup/core/schedule',
      'platform/jobs/schedules',
      'platform/jobs/cron',
    ],
  },
  {
    name: 'migration-rules',
    mutate: ['test/contract/migration-rules.ts', 'src/platform/db/migrations/online-migration.ts'],
    tests: ['migrations/migration-rules', 'contract/migrations'],
  },
  {
    name: 'filter-parsing',
    mutate: [
      'src/features/conditions/language/parse.ts',
      'src/features/conditions/language/limits.ts',
      'src/features/conditions/language/rule.ts',
    ],
    tests: ['unit/conditions/limits', 'conditions/language/parsing', 'conditions/reads'],
  },
  {
    name: 'filter-compiler',
    mutate: [
      'src/features/conditions/conditions.ts',
      'src/features/conditions/language/parse.ts',
      'src/features/conditions/language/operators.ts',
      'src/features/conditions/language/limits.ts',
      'src/features/conditions/language/rule.ts',
      'src/features/conditions/memory/compile-predicate.ts',
      'src/features/conditions/memory/matchable-row.ts',
      'src/features/conditions/memory/fold.ts',
      'src/features/conditions/sql/to-sql.ts',
      'src/features/conditions/fields/field.ts',
      'src/features/conditions/fields/fields.ts',
      'src/features/conditions/fields/custom-field.ts',
      'src/features/conditions/fields/instants.ts',
    ],
    tests: ['conditions/both-backends', 'conditions/language/parsing', 'conditions/reads'],
    usesDatabase: true,
  },
  {
    name: 'audit-chain',
    mutate: [
      'src/features/audit/chain/bundle.ts',
      'src/features/audit/chain/canonical-json.ts',
      'src/features/audit/chain/chain-check.ts',
      'src/features/audit/chain/chain.ts',
      'src/features/audit/chain/checkpoint.ts',
      'src/features/audit/chain/entry-segment.ts',
    ],
    tests: [
      'audit/segments',
      'audit/chain/chain',
      'audit/verification/tampering',
      'audit/verification/parallel-check',
    ],
    usesDatabase: true,
  },
  {
    name: 'row-retention',
    mutate: ['src/platform/db/retention/retention-rule.ts', 'src/platform/db/retention/row-pruner.ts'],
    tests: ['log-retention/log-retention', 'contract/table-life'],
    usesDatabase: true,
  },
  {
    name: 'ledger',
    mutate: ['src/features/commands/command-ledger.ts', 'src/features/commands/job-updates.ts'],
    tests: ['commands/ledger-guards', 'features/commands/command-ledger'],
    usesDatabase: true,
  },
  {
    name: 'directory',
    mutate: [
      'src/hub/cluster/directory.ts',
      'src/hub/cluster/remote-queries.ts',
      'src/platform/cluster/redis-claims.ts',
    ],
    tests: ['hub/cluster/directory', 'hub/cluster/remote-queries', 'platform/cluster/redis-claims'],
  },
];
