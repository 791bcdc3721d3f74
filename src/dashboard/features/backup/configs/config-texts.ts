import { z } from 'zod';
import type { BackupConfig } from '../../../api/index.ts';
import { formatWord } from '../../../ui/index.ts';
import { countedTargets } from '../parts/counted-targets.ts';
import { KIND_NAMES } from './sources/source-kinds.ts';

const Many = z.array(z.string()).catch([]);

/** "Files", "Whole disks", "SQL Server: Sales". */
export const sourceText = ({ sources }: BackupConfig): string =>
  sources.kind === 'mssql' ? `${KIND_NAMES.mssql}: ${sources.database}` : KIND_NAMES[sources.kind];

export function placeText({ provider, details }: BackupConfig): string {
  if (provider === 'server') return 'This server';
  if ('bucket' in details) return `Bucket ${details.bucket}`;
  return 'path' in details ? `On the device: ${details.path}` : formatWord(provider);
}

export function targetText({ targets }: BackupConfig): string {
  if (targets.all === true) return 'Every device';
  const parts = countedTargets(Many.parse(targets.deviceIds), Many.parse(targets.groupIds));
  if (targets.filterId !== undefined) parts.push('A filter');
  return parts.length === 0 ? 'None by itself' : parts.join(', ');
}
