import type { SqlChains } from '../../../api/index.ts';

/** A database of an instance of a device. */
export interface SqlSource {
  deviceId: string;
  instance: string;
  database: string;
}

/** One backup of the history of SQL Server. */
export type SqlSet = SqlChains['data']['chains'][number]['full'];
