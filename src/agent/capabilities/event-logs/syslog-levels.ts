import type { LogLevel } from '../../../protocol/index.ts';

/** The level of each severity of syslog (RFC 5424, 6.2.1), from 0, emergency, to 7, debug. */
export const SYSLOG_LEVELS: readonly LogLevel[] = [
  'critical',
  'critical',
  'critical',
  'error',
  'warning',
  'information',
  'information',
  'verbose',
];
