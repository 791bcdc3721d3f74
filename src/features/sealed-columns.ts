import type { SealedColumn } from '../platform/secrets/reseal.ts';

/** Every column that holds sealed secrets: `npm run rotate-secrets` reads them here. */
export const SEALED_COLUMNS: readonly SealedColumn[] = [
  { table: 'user_mfa', column: 'secret', id: 'user_id' },
];
