import {
  bounded,
  byRules,
  type RetentionRule,
  type TableLife,
} from '../platform/db/retention/retention-rule.ts';
import { idempotencyRetention } from '../platform/http/mount/idempotency.ts';
import { jobRetention } from '../platform/jobs/retention.ts';
import { FEATURES } from './index.ts';

/**
 * Every table with the feature that owns it, and what ends its rows. Features declare their tables in their `index.ts`;
 * a table that nobody declares fails test/contract/table-life.test.ts. Why nothing may grow without limit:
 * docs/decisions/row-life.md.
 */
export const TABLE_LIFE: Readonly<Record<string, readonly TableLife[]>> = {
  ...Object.fromEntries(FEATURES.map(({ name, tables }) => [name, tables])),
  // Tables of the platform itself.
  platform: [
    ...byRules([idempotencyRetention, ...jobRetention]),
    bounded('job_schedules', 'there is one for each recurring job of the program'),
  ],
};

/** In the order in which they are carried out. */
export const RETENTION_RULES: readonly RetentionRule[] = Object.values(TABLE_LIFE)
  .flat()
  .flatMap((life) => ('rule' in life ? [life.rule] : []));
