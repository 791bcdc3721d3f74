import type { LogEntry } from '../../../src/protocol/index.ts';
import { rowOfEntry, type LogRow } from '../../../src/dashboard/features/event-logs/log-row.ts';

export const DEVICE = '0198f1d2-3333-7abc-8def-000000000003';
export const T0 = Date.parse('2026-01-31T08:00:00.000Z');

export const entryOf = (recordId: number, change: Partial<LogEntry> = {}): LogEntry => ({
  recordId,
  timeCreated: new Date(T0 + recordId * 1000).toISOString(),
  level: 'information',
  source: 'sshd',
  eventId: 7,
  message: `Entry ${recordId}`,
  category: 'auth',
  user: null,
  computer: 'web-01',
  ...change,
});

export const rowOf = (recordId: number, change: Partial<LogEntry> = {}): LogRow =>
  rowOfEntry(DEVICE, entryOf(recordId, change));
