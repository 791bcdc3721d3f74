import type { BackupParts } from '../../repository/backup-parts.ts';
import type { DurableHandlers } from '../../work/durable-handler.ts';
import { runImageRestore } from './restore/run-image-restore.ts';
import { runImageBackup } from './run-image-backup.ts';

/** The commands of images of whole disks. Nothing reads whole disks on other systems than Linux yet. */
export const imageHandlers = (parts: BackupParts): DurableHandlers =>
  process.platform === 'linux'
    ? { 'backup.image': runImageBackup(parts), 'backup.image-restore': runImageRestore(parts) }
    : {};
