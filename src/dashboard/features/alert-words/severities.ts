import type { Alert } from '../../api/routes.ts';

export type Severity = Alert['severity'];

/** The worst first. */
export const SEVERITIES: readonly Severity[] = ['critical', 'high', 'medium', 'low', 'info'];
