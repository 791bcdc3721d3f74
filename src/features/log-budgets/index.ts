import { byRules, type RetentionRule } from '../../platform/db/retention/retention-rule.ts';
import { defineFeature } from '../feature.ts';
import { chosenDays, DEFAULT_EVENT_DAYS } from '../log-retention/index.ts';

export { bytesOf, LogBudgets } from './log-budgets.ts';

/** A day counts in the total for as long as its events are kept. */
const RETENTION: RetentionRule = {
  table: 'stored_log_days',
  key: ['device_id', 'day'],
  days: DEFAULT_EVENT_DAYS,
  isOver: (days) => `old.day < (now() at time zone 'utc')::date - ${days}::int`,
  organization: { chosenDays: chosenDays('event_days') },
};

export const feature = defineFeature({ name: 'log-budgets', tables: byRules([RETENTION]) });
