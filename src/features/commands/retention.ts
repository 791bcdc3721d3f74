import type { RetentionRule } from '../../platform/db/retention/retention-rule.ts';
import { chosenDays, DEFAULT_COMMAND_DAYS } from '../log-retention/index.ts';

/** Their payload and output may hold what nobody should find years later. Each takes its transitions along. */
export const commandRetention: readonly RetentionRule[] = [
  {
    table: 'commands',
    key: ['id'],
    days: DEFAULT_COMMAND_DAYS,
    isOver: (days) => `old.finished_at < now() - make_interval(days => ${days})`,
    organization: { chosenDays: chosenDays('command_days') },
    atOnce: 1000,
  },
];
