import { bounded, byRules, type RetentionRule, type RetentionPolicy } from '../platform/db/retention-rule.ts';
import { idempotencyRetention } from '../platform/http/idempotency.queries.ts';
import { jobRetention } from '../platform/jobs/row-pruner.ts';
import { FEATURES } from './index.ts';

/**
 * Every table with the feature that owns it, and what ends its rows. Features declare their tables in their `index.ts`;
 * a table without a declaration fails test/contract/retention-policies.test.ts. Why nothing may grow without limit:
 * docs/decisions/row-life.md.
 */
export const RETENTION_POLICIES: Readonly<Record<string, readonly RetentionPolicy[]>> = {
  ...Object.fromEntries(FEATURES.map(({ name, tables }) => [name, tables])),
  // Tables of the platform itself.
  platform: [
    ...byRules([idempotencyRetention, ...jobRetention]),
    bounded('job_schedules', 'there is one for each recurring job of the program'),
  ],
};

/** In the order in which they are carried out. */
export const RETENTION_RULES: readonly RetentionRule[] = Object.values(RETENTION_POLICIES)
  .flat()
  .flatMap((policy) => ('rule' in policy ? [policy.rule] : []));
