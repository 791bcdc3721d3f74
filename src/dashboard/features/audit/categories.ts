import type { AuditLog } from '../../api/index.ts';

/** What an action is about, in the order in which it is offered. */
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
