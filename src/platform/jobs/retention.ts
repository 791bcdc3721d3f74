import { expiredRows, type RetentionRule } from '../db/retention/retention-rule.ts';

/** Ended jobs, once they have been kept for the days of their outcome. */
export const jobRetention: readonly RetentionRule[] = [expiredRows('background_jobs', 'id', 0)];
