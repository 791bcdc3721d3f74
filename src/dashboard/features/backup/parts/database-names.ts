import type { BackupDatabaseInstance, BackupDatabaseChains } from '../../../api/index.ts';

export const ENGINE_NAMES: Readonly<Record<BackupDatabaseInstance['engine'], string>> = {
  postgresql: 'PostgreSQL',
  mariadb: 'MariaDB',
  mssql: 'SQL Server',
};

export type BackupType = BackupDatabaseChains['chains'][number]['snapshots'][number]['backupType'];

export const BACKUP_TYPE_NAMES: Readonly<Record<BackupType, string>> = {
  full: 'Full backup',
  differential: 'Differential backup',
  log: 'Log',
};

export const BACKUP_TYPES: readonly BackupType[] = ['full', 'differential', 'log'];

const SHOWN = 8;

/** "shop, crm and 3 more" */
export function databasesText(names: readonly string[]): string {
  if (names.length === 0) return 'Not known';
  const more = names.length - SHOWN;
  return more > 0 ? `${names.slice(0, SHOWN).join(', ')} and ${more} more` : names.join(', ');
}
