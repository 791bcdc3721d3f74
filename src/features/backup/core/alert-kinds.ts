/** The kinds of the alerts about backups. Each is about one device; the last is also about an organization. */
export const FAILED = 'backup_failed';
export const EMPTY = 'backup_empty';
export const MISSED = 'backup_missed';
export const STALLED = 'backup_stalled';
export const SIZE_DROP = 'backup_size_drop';
export const VERIFICATION_FAILED = 'backup_verification_failed';
export const BROKEN_CHAIN = 'backup_chain_broken';
export const VAULT_BEHIND = 'backup_vault_behind';
export const SLA_BREACH = 'backup_sla_breach';
export const DESTINATION_FULL = 'backup_destination_full';
