import { SEALED_JOB_INPUT } from '../platform/jobs/definition.ts';
import type { SealedColumn } from '../platform/secrets/secrets.queries.ts';
import { SEALED_SIGNING_KEY } from './audit/index.ts';
import { SEALED_BACKUP_COLUMNS } from './backup/index.ts';
import { SEALED_CONNECTION_SECRET } from './cloud-backup/index.ts';
import { SEALED_COMMAND_SECRET } from './commands/index.ts';
import { SEALED_CHANNEL_SECRET } from './notifications/index.ts';
import { SEALED_RELEASE_KEY } from './releases/index.ts';
import { SEALED_SCHEDULE_SECRET } from './script-schedules/index.ts';
import { SEALED_SSO_COLUMNS } from './sso/index.ts';
import { SEALED_TERMINAL_KEY } from './terminals/index.ts';
import { SEALED_WEBHOOK_SECRETS } from './webhooks/index.ts';

/** Every column that holds sealed secrets: `npm run rotate-secrets` reads them here. */
export const SEALED_COLUMNS: readonly SealedColumn[] = [
  { table: 'user_mfa', column: 'secret', id: 'user_id' },
  SEALED_SIGNING_KEY,
  SEALED_RELEASE_KEY,
  SEALED_JOB_INPUT,
  SEALED_COMMAND_SECRET,
  SEALED_SCHEDULE_SECRET,
  SEALED_CONNECTION_SECRET,
  ...SEALED_BACKUP_COLUMNS,
  ...SEALED_SSO_COLUMNS,
  ...SEALED_WEBHOOK_SECRETS,
  SEALED_CHANNEL_SECRET,
  SEALED_TERMINAL_KEY,
];
