import { z } from 'zod';
import { clock } from '../../../clock.ts';
import { defineJob } from '../../../platform/jobs/definition.ts';
import type { Jobs } from '../../../platform/jobs/jobs.ts';
import type { Metrics } from '../../../platform/metrics.ts';
import { checkActiveProviders, type RoundParts } from './health-round.ts';

const CHECK_PROVIDERS = defineJob({
  name: 'sso.check-providers',
  input: z.object({}),
  result: z.object({ checked: z.number(), failing: z.number(), skipped: z.number() }),
  inCluster: 1,
  // Not retried, because the next round comes soon.
  attempts: 1,
});

/** The time limit of a round, so that hanging providers do not delay the next one. */
const ROUND_MS = 600_000;

interface JobParts extends Omit<RoundParts, 'onChecked'> {
  jobs: Jobs;
  metrics: Metrics;
}

/** Checks the active providers every 15 minutes. */
export function checkProvidersRegularly({ jobs, metrics, ...parts }: JobParts): void {
  const checks = metrics.counter(
    'muster_sso_provider_checks_total',
    'Checks of active single sign-on providers, by protocol and outcome.',
    ['type', 'outcome'],
  );
  jobs.handle(CHECK_PROVIDERS, ({ signal }) =>
    checkActiveProviders(
      { ...parts, onChecked: (type, outcome) => checks.inc({ type, outcome }) },
      { now: clock.date(), signal: AbortSignal.any([signal, clock.timeoutSignal(ROUND_MS)]) },
    ),
  );
  jobs.schedule(CHECK_PROVIDERS, { cron: '*/15 * * * *', timeZone: 'UTC' }, {});
}
