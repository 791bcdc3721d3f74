import type { Alert } from '../../api/routes.ts';

/** Severities and kinds of alerts, and the words for kinds. Pure. */

export type Severity = Alert['severity'];

/** The worst first. */
export const SEVERITIES: readonly Severity[] = ['critical', 'high', 'medium', 'low', 'info'];

/** What Muster reports by itself, without a condition that a rule evaluates. */
export const REPORTED_KINDS = [
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
  'agent_rollout_halted',
  'watchdog_rollout_halted',
  'machine_identity_conflict',
  'sso_provider_failing',
  'sso_break_glass',
  'webhook_disabled',
  'log_budget_spent',
  'oldest_logs_removed',
] as const;

/** The kinds of alerts about figures of a device, whose codes do not say it in words that people use. */
const FIGURE_WORDS = {
  cpu_high: 'High processor use',
  cpu_low: 'Low processor use',
  memory_high: 'High memory use',
  memory_low: 'Low memory use',
  swap_high: 'High swap use',
  swap_low: 'Low swap use',
  load_high: 'High load',
  load_low: 'Low load',
  disk_full: 'Disk full',
  disk_use_low: 'Low disk use',
  disk_space_high: 'Much free disk space',
  disk_space_low: 'Low disk space',
  uptime_long: 'Long uptime',
  uptime_short: 'Short uptime',
  network_receive_high: 'High received network traffic',
  network_receive_low: 'Low received network traffic',
  network_send_high: 'High sent network traffic',
  network_send_low: 'Low sent network traffic',
  disk_read_high: 'High disk reads',
  disk_read_low: 'Low disk reads',
  disk_write_high: 'High disk writes',
  disk_write_low: 'Low disk writes',
} as const;

/** The kinds of alerts of rules that watch for causes of their own. A policy for one takes those of all such rules. */
const RULE_FAMILIES = ['log_event', 'software_change', 'service_state'] as const;

const WORDS: ReadonlyMap<string, string> = new Map([
  ...Object.entries(FIGURE_WORDS),
  ['backup_sla_breach', 'Backup SLA breach'],
  ['sso_provider_failing', 'SSO provider failing'],
]);
const KINDS: ReadonlyMap<string, string> = new Map(
  [...WORDS].map(([kind, words]) => [words.toLowerCase(), kind]),
);

/** The kinds of alerts that Muster raises. The API takes others as well, which later releases may raise. */
export const ALERT_KINDS: readonly string[] = [
  'device_offline',
  ...Object.keys(FIGURE_WORDS),
  ...RULE_FAMILIES,
  ...REPORTED_KINDS,
];

/** "disk_space_low" → "Low disk space". `kindOf` turns the words into the kind again. */
export function wordsOfKind(kind: string): string {
  const words = kind.replaceAll('_', ' ');
  return WORDS.get(kind) ?? words.charAt(0).toUpperCase() + words.slice(1);
}

/** "Low disk space" → "disk_space_low", so that people type words. */
export function kindOf(words: string): string {
  const typed = words.trim().toLowerCase().replaceAll(/\s+/g, ' ');
  return KINDS.get(typed) ?? typed.replaceAll(/[ -]+/g, '_');
}

/** Each rule of these conditions raises alerts of a kind of its own, whose code ends in digits of its id. */
const OF_ONE_RULE = new RegExp(`^(${RULE_FAMILIES.join('|')})_[0-9a-f]{12}$`);

/** As alerts show their kind: "Log event", "Low disk space". */
export const alertKindText = (kind: string): string => wordsOfKind(OF_ONE_RULE.exec(kind)?.[1] ?? kind);

/** The same within a sentence: "low disk space", "SSO provider failing". */
export function alertKindInSentence(kind: string): string {
  const text = alertKindText(kind);
  return /^[A-Z]{2}/.test(text) ? text : text.charAt(0).toLowerCase() + text.slice(1);
}
