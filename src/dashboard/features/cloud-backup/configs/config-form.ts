import type { CloudBackupConfig, Input } from '../../../api/index.ts';
import { scheduleFormOf, scheduleOf, timeZone, type ScheduleForm } from '../../backup/index.ts';
import type { Kind } from '../parts/kinds.ts';

/** What the dialog of a configuration holds, and how it becomes what the API takes. */

type NewConfig = Input<'POST /c2c/configs'>['body'];
type ConfigPatch = Input<'PATCH /c2c/configs/{id}'>['body'];

export interface CloudForm extends ScheduleForm {
  name: string;
  connectionId: string | undefined;
  encryptionKeyId: string | undefined;
  backupScope: Kind[];
  allUsers: boolean;
  /** One address a line, or separated by commas. */
  users: string;
  timezone: string;
  keepDays: number | undefined;
  keepVersions: number | undefined;
  enabled: boolean;
}

export const formOf = (config: CloudBackupConfig | undefined, connectionId?: string): CloudForm => ({
  ...scheduleFormOf(config?.schedule),
  name: config?.name ?? '',
  connectionId: config?.connectionId ?? connectionId,
  encryptionKeyId: config?.encryptionKeyId,
  backupScope: config?.backupScope ?? ['mail', 'calendar', 'contacts', 'onedrive'],
  allUsers: config?.allUsers ?? true,
  users: (config?.targetUsers ?? []).join('\n'),
  timezone: config === undefined ? timeZone() : (config.schedule?.timezone ?? 'UTC'),
  keepDays: config === undefined ? 365 : config.retention.keepDays,
  keepVersions: config?.retention.keepVersions,
  enabled: config?.enabled ?? true,
});

const usersIn = (text: string): string[] =>
  text
    .split(/[\s,;]+/)
    .map((address) => address.trim())
    .filter((address) => address !== '');

/** Fields that may be changed afterwards. */
export function patchOf(form: CloudForm): ConfigPatch {
  const { keepDays, keepVersions } = form;
  const schedule = scheduleOf(form);
  return {
    name: form.name,
    backupScope: form.backupScope,
    allUsers: form.allUsers,
    targetUsers: form.allUsers ? [] : usersIn(form.users),
    schedule: schedule === null ? null : { ...schedule, timezone: form.timezone },
    retention: {
      ...(keepDays === undefined ? {} : { keepDays }),
      ...(keepVersions === undefined ? {} : { keepVersions }),
    },
    enabled: form.enabled,
  };
}

export const newConfig = (form: CloudForm): NewConfig => ({
  ...patchOf(form),
  name: form.name,
  backupScope: form.backupScope,
  connectionId: form.connectionId ?? '',
  encryptionKeyId: form.encryptionKeyId ?? '',
});

/** "Every user", "3 users". */
export const usersText = ({ allUsers, targetUsers }: CloudBackupConfig): string =>
  allUsers ? 'Every user' : `${targetUsers.length} ${targetUsers.length === 1 ? 'user' : 'users'}`;
