import type { SqlChains } from '../../../api/index.ts';

/** A database of an instance of a device. */
export interface SqlSource {
  deviceId: string;
  instance: string;
  database: string;
}

/** One backup of the history of SQL Server. */
export type SqlSet = SqlChains['data']['chains'][number]['full'];

/** By the clock of the machine: "2026-11-23T09:30:00" → "2026-11-23 09:30:00". */
export const clockText = (at: string): string => at.replace('T', ' ');
