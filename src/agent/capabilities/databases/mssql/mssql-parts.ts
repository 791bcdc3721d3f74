import type { RunSql } from '../../../sql-server/sqlcmd.ts';

export interface MssqlParts {
  run: RunSql;
  /** Where a folder of the machine is for this process. Tests run on another system. */
  toLocal?: (folder: string) => string;
}

/** The only file of a snapshot. */
export const MSSQL_FILE = 'mssql.bak';
