import { Checkbox, Text, TextInput } from '@mantine/core';
import { useState } from 'react';
import { useApiChange } from '../../../api/index.ts';
import { FormDialog } from '../../../ui/index.ts';
import { BACKUP_TYPE_NAMES } from '../parts/database-names.ts';
import type { SqlSet, SqlSource } from './sql-parts.ts';

/** Has SQL Server restore one backup: a full one as a new database, and the others into one that waits for them. */
export function SqlRestoreDialog({
  source: { deviceId, instance, database },
  set: { backupType, file },
  onSent,
  onClose,
}: {
  source: SqlSource;
  set: SqlSet;
  onSent: (id: string) => void;
  onClose: () => void;
}) {
  const isFull = backupType === 'full';
  const [targetDatabase, setTarget] = useState(`${database}_restored`);
  const [noRecovery, setNoRecovery] = useState(false);
  const [stopAt, setStopAt] = useState('');
  const restore = useApiChange('POST /backup/mssql/restore');
  const submit = async () => {
    const { id } = await restore.mutateAsync({
      body: {
        deviceId,
        instance,
        backupFile: file ?? '',
        targetDatabase: targetDatabase.trim(),
        backupType,
        noRecovery,
        ...(backupType === 'log' && stopAt !== '' ? { stopAt: withSeconds(stopAt) } : {}),
      },
    });
    onSent(id);
  };
  return (
    <FormDialog
      title={`Restore: ${BACKUP_TYPE_NAMES[backupType].toLowerCase()} of ${database}`}
      size="lg"
      opened
      onClose={onClose}
      submitLabel="Restore"
      submit={submit}
    >
      {(faults) => (
        <>
          <Text size="sm" style={{ overflowWrap: 'anywhere' }}>
            From {file}.
          </Text>
          <TextInput
            label={isFull ? 'New database' : 'Database'}
            required
            description={
              isFull
                ? 'A new name: nothing that is there is replaced.'
                : 'One that the full backup was restored to without recovery.'
            }
            value={targetDatabase}
            onChange={(event) => setTarget(event.currentTarget.value)}
            error={faults['targetDatabase']}
            data-autofocus
          />
          {backupType === 'log' && (
            <TextInput
              type="datetime-local"
              step={1}
              label="Up to"
              description="By the clock of the machine. Empty: all of the log."
              value={stopAt}
              onChange={(event) => setStopAt(event.currentTarget.value)}
              error={faults['stopAt']}
            />
          )}
          <Checkbox
            label="More backups follow"
            description="The database then waits for them, and cannot be used until the last one."
            checked={noRecovery}
            onChange={(event) => setNoRecovery(event.currentTarget.checked)}
            error={faults['noRecovery']}
          />
        </>
      )}
    </FormDialog>
  );
}

/** Fields for times leave out seconds that are zero. */
const withSeconds = (time: string): string => (time.length === 16 ? `${time}:00` : time);
