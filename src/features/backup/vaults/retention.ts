import type { RetentionRule } from '../../../platform/db/retention/retention-rule.ts';

/** A vault can be synced after each backup, and the snapshots stay for as long as they are kept. */
const DAYS = 100;

export const vaultSyncRetention: readonly RetentionRule[] = [
  {
    table: 'backup_vault_syncs',
    key: ['id'],
    days: DAYS,
    isOver: (days) => `old.finished_at < now() - make_interval(days => ${days})`,
    organization: {},
  },
];
