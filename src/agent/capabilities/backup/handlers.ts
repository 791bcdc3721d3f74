import { rm } from 'node:fs/promises';
import path from 'node:path';
import type { DurableHandlers } from '../../work/durable-handler.ts';
import type { BackupParts } from '../../repository/backup-parts.ts';
import { discardRestore } from './restore/discard-restore.ts';
import { StagingFolders } from './restore/staging.ts';
import { runRestore, runVolumeRestore } from './restore/run-restore.ts';
import { runBackup } from './run-backup.ts';
import { syncVault } from './sync-vault.ts';
import { testDestination } from './test-destination.ts';
import { verifySample } from './verify-sample.ts';

/** Removes what an earlier agent has left, and returns the commands of backups. */
export async function openBackups(parts: BackupParts): Promise<DurableHandlers> {
  const staging = new StagingFolders(parts.folder, parts.warn);
  await parts.engine.clear();
  await rm(path.join(parts.folder, 'verified'), { recursive: true, force: true });
  staging.clear();
  return {
    'backup.run': runBackup(parts),
    'backup.restore': runRestore({ ...parts, staging }),
    'backup.image-files-restore': runVolumeRestore({ ...parts, staging }),
    'recovery.discard-restore': discardRestore({ ...parts, staging }),
    'backup.verify': verifySample(parts),
    'backup.vault-sync': syncVault(parts),
    'backup.test-destination': testDestination(parts),
  };
}
