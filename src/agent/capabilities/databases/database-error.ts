import { AgentError } from '../../core/agent-error.ts';

/** Why the backup or the restore of a database was not possible. The server and people know these codes. */
export type DatabaseCode =
  | 'DATABASE_NOT_FOUND'
  | 'DATABASE_DENIED'
  | 'DATABASE_FAILED'
  | 'DATABASE_TOOL_MISSING'
  | 'DATABASE_UNSUPPORTED'
  | 'CHAIN_BROKEN'
  | 'SPOOL_FULL'
  | 'POINT_NOT_REACHED'
  | 'BACKUP_DAMAGED';

export const databaseError = (code: DatabaseCode, message: string) => new AgentError(code, message);

export const toolMissing = (program: string, what: string) =>
  databaseError(
    'DATABASE_TOOL_MISSING',
    `The program ${program} is not installed on this device. It belongs to ${what}.`,
  );
