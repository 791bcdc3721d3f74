/** The kinds of alerts that Muster raises. The API takes others as well, which later releases may raise. */
export const ALERT_KINDS = [
  'device_offline',
  'disk_full',
  'backup_failed',
  'backup_missed',
  'backup_stalled',
  'backup_empty',
  'backup_size_drop',
  'backup_sla_breach',
  'backup_chain_broken',
  'backup_destination_full',
  'backup_vault_behind',
  'backup_verification_failed',
  'cloud_backup_failed',
  'cloud_backup_missed',
  'recovery_failed',
  'upgrade_failed',
  'machine_identity_conflict',
  'sso_provider_failing',
  'webhook_disabled',
  'log_budget_spent',
  'oldest_logs_removed',
] as const;

/** "Device offline" → "device_offline", so that people type words. */
export const kindOf = (words: string): string =>
  words
    .trim()
    .toLowerCase()
    .replaceAll(/[\s-]+/g, '_');
