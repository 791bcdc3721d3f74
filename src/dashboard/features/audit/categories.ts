import type { AuditLog } from '../../api/index.ts';

/** The categories of actions, in the order in which they are offered. */
export const CATEGORIES = [
  'authentication',
  'device',
  'automation',
  'policy',
  'alert',
  'compliance',
  'organization',
  'system',
] as const satisfies readonly AuditLog['category'][];
