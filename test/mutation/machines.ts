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
      'src/hub/device/live-query.ts',
      'src/hub/device/actor-messages.ts',
      'src/hub/device/actor-registry.ts',
      'src/hub/device/heartbeat.ts',
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
      'src/hub/presence/lost-devices.ts',
      'src/hub/presence/http-reports.ts',
      'src/hub/presence/actor-reports.ts',
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
    mutate: ['src/hub/commands/command-dispatcher.ts'],
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
      'src/agent/capabilities/update/upgrade-state.ts',
      'src/agent/os/releases/upgrade-files.ts',
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
      'src/watchdog/judge.ts',
      'src/watchdog/settle.ts',
      'src/watchdog/supervised-run.ts',
      'src/agent/os/releases/upgrade-files.ts',
      'src/agent/os/releases/installed-release.ts',
    ],
    tests: [
      'unit/watchdog/trial-run',
      'unit/watchdog/supervised-run',
      'unit/watchdog/settle',
      'unit/watchdog/abilities-before',
      'unit/agent/os/releases/proven-releases',
    ],
  },
  {
    name: 'access-rules',
    mutate: ['src/hub/dashboard/dashboard-access.ts', 'src/platform/http/authentication.ts'],
    tests: [
      'unit/hub/dashboard/access-changes',
      'hub/dashboard/connection-access',
      'hub/dashboard/dashboard-access',
      'platform/authorize',
      'platform/authentication',
    ],
  },
  {
    name: 'backup-retention',
    mutate: ['src/features/backup/retention.ts'],
    tests: ['features/backup/retention-reasons', 'unit/features/backup/retention'],
  },
  {
    name: 'schedules',
    mutate: [
      'src/features/backup/schedule.ts',
      'src/platform/jobs/schedules.ts',
      'src/platform/jobs/definition.ts',
    ],
    tests: [
      'features/backup/schedule-windows',
      'unit/features/backup/schedule',
      'platform/jobs/schedules',
      'platform/jobs/cron',
    ],
  },
  {
    name: 'migration-rules',
    mutate: ['test/contract/migration-rules.ts', 'src/platform/db/migrations.ts'],
    tests: ['platform/migration-rules', 'contract/migrations'],
  },
  {
    name: 'filter-parsing',
    mutate: ['src/features/conditions/parse.ts', 'src/features/conditions/rule.ts'],
    tests: ['unit/features/conditions/limits', 'unit/features/conditions/parsing', 'conditions/reads'],
  },
  {
    name: 'filter-compiler',
    mutate: [
      'src/features/conditions/conditions.ts',
      'src/features/conditions/parse.ts',
      'src/features/conditions/operators.ts',
      'src/features/conditions/rule.ts',
      'src/features/conditions/condition.queries.ts',
      'src/features/conditions/to-sql.ts',
      'src/features/conditions/field.ts',
      'src/features/conditions/fields.ts',
      'src/features/conditions/instants.ts',
    ],
    tests: [
      'unit/features/conditions/instants',
      'unit/features/conditions/limits',
      'unit/features/conditions/parsing',
      'conditions/compiled-sql',
      'conditions/condition-queries',
      'conditions/custom-values',
      'conditions/reads',
      'features/conditions/in-memory',
      'features/conditions/both-backends',
      'features/conditions/budgets',
    ],
    usesDatabase: true,
  },
  {
    name: 'audit-chain',
    mutate: [
      'src/features/audit/bundle.ts',
      'src/features/audit/chain.ts',
      'src/features/audit/chain-check.ts',
    ],
    tests: [
      'features/audit/chain-check',
      'features/audit/segments',
      'unit/features/audit/parallel-check',
      'features/audit/chain',
    ],
    usesDatabase: true,
  },
  {
    name: 'row-retention',
    mutate: ['src/platform/db/retention-rule.ts', 'src/platform/jobs/row-pruner.ts'],
    tests: ['platform/row-pruner'],
  },
  {
    name: 'ledger',
    mutate: [
      'src/features/commands/command-ledger.ts',
      'src/features/commands/command-ledger.queries.ts',
      'src/features/commands/command.queries.ts',
    ],
    tests: [
      'features/commands/ledger-guards',
      'features/commands/command-ledger',
      'features/commands/commands',
      'features/commands/command-secrets',
      'features/commands/connected-devices',
      'unit/features/commands/job-updates',
    ],
    usesDatabase: true,
  },
  {
    name: 'directory',
    mutate: [
      'src/hub/cluster/directory.ts',
      'src/hub/cluster/router.ts',
      'src/platform/cluster/redis-claims.ts',
    ],
    tests: ['hub/cluster/directory', 'hub/cluster/remote-queries', 'platform/cluster/redis-claims'],
  },
  {
    name: 'job-queue',
    mutate: ['src/platform/jobs/job.queries.ts'],
    tests: ['server/platform/jobs/job-store', 'server/platform/jobs/jobs'],
    usesDatabase: true,
  },
  {
    name: 'presence-sql',
    mutate: ['src/features/devices/presence.queries.ts'],
    tests: [
      'features/devices/presence-guards',
      'server/features/agents/heartbeat',
      'server/features/devices/address-changes',
      'server/hub/presence/server-clock',
      'server/hub/feed/unwritten-presence',
      'server/hub/agents/agents',
    ],
    usesDatabase: true,
  },
  {
    name: 'sessions',
    mutate: ['src/features/auth/session.service.ts', 'src/features/auth/password.service.ts'],
    tests: ['features/auth/session-guards', 'server/features/auth/sign-in', 'server/features/auth/passwords'],
    usesDatabase: true,
  },
  {
    name: 'second-factor',
    mutate: [
      'src/features/auth/auth.queries.ts',
      'src/features/auth/second-factor.ts',
      'src/features/auth/mfa.service.ts',
    ],
    tests: [
      'features/auth/challenge-guards',
      'features/auth/factor-guards',
      'features/auth/session-guards',
      'server/features/auth/mfa',
      'server/features/auth/step-up',
      'server/features/auth/sign-in-limits',
    ],
    usesDatabase: true,
  },
  {
    name: 'audit-writer',
    mutate: [
      'src/features/audit/chain-writer.queries.ts',
      'src/features/audit/audit-retention.queries.ts',
      'src/features/audit/prune-chain.ts',
    ],
    tests: [
      'features/audit/chain',
      'features/audit/recording',
      'features/audit/sealer',
      'features/audit/pruning',
      'features/audit/retention',
    ],
    usesDatabase: true,
  },
  {
    name: 'backup-jobs',
    mutate: [
      'src/features/backup/add-job.ts',
      'src/features/backup/job.queries.ts',
      'src/features/backup/job.work.ts',
      'src/features/backup/job-settle.ts',
      'src/features/backup/job.service.ts',
      'src/features/backup/retention.service.ts',
      'src/features/backup/scheduler.ts',
    ],
    tests: [
      'server/features/backup/job-begins',
      'server/features/backup/what-goes',
      'server/features/backup/scheduler',
      'server/features/backup/job-life',
      'server/features/backup/stalled',
      'server/features/backup/watch',
    ],
    usesDatabase: true,
  },
  {
    name: 'webhooks',
    mutate: ['src/features/webhooks/webhook.queries.ts'],
    tests: [
      'features/webhooks/webhook-guards',
      'server/features/webhooks/sending',
      'server/features/webhooks/webhooks',
    ],
    usesDatabase: true,
  },
];
