import { z } from 'zod';
import type { BackupConfig } from '../../../api/index.ts';
import { formatWord } from '../../../ui/index.ts';

const Many = z.array(z.string()).catch([]);

/** "Daily at 22:00", "By hand". */
export function scheduleText({ schedule }: BackupConfig): string {
  if (schedule === null) return 'By hand';
  const time = schedule.time ?? schedule.windowStart;
  return `${formatWord(schedule.frequency)}${time === undefined ? '' : ` at ${time}`}`;
}

export function placeText({ provider, details }: BackupConfig): string {
  if (provider === 'server') return 'This server';
  if ('bucket' in details) return `Bucket ${details.bucket}`;
  return 'path' in details ? `On the device: ${details.path}` : formatWord(provider);
}

export function targetText({ targets }: BackupConfig): string {
  if (targets.all === true) return 'Every device';
  const devices = Many.parse(targets.deviceIds).length;
  const groups = Many.parse(targets.groupIds).length;
  const parts = [
    devices === 0 ? undefined : `${devices} ${devices === 1 ? 'device' : 'devices'}`,
    groups === 0 ? undefined : `${groups} ${groups === 1 ? 'group' : 'groups'}`,
    targets.filterId === undefined ? undefined : 'A filter',
  ].filter((part) => part !== undefined);
  return parts.length === 0 ? 'None by itself' : parts.join(', ');
}
