import { Text, TextInput } from '@mantine/core';
import { useState } from 'react';
import { useApiChange } from '../../../api/index.ts';
import { FormDialog } from '../../../ui/index.ts';
import { BACKUP_TYPE_NAMES } from '../parts/database-names.ts';
import { stepBody } from './restore-path.ts';
import type { SqlSet, SqlSource } from './sql-parts.ts';
import { NoRecoveryField, StopAtField } from './restore-fields.tsx';

/** Has SQL Server restore one backup: a full one as a new database, and the others into one that waits for them. */
export function SqlRestoreDialog({
  source,
  set,
  onSent,
  onClose,
}: {
  source: SqlSource;
  set: SqlSet;
  onSent: (id: string) => void;
  onClose: () => void;
}) {
  const { database } = source;
  const { backupType, file } = set;
  const isFull = backupType === 'full';
  const [targetDatabase, setTarget] = useState(`${database}_restored`);
  const [noRecovery, setNoRecovery] = useState(false);
  const [stopAt, setStopAt] = useState('');
  const restore = useApiChange('POST /backup/mssql/restore');
  const submit = async () => {
    const { id } = await restore.mutateAsync({
      body: stepBody(source, { path: [set], targetDatabase: targetDatabase.trim(), stopAt, noRecovery }, 0),
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
            <StopAtField value={stopAt} onChange={setStopAt} error={faults['stopAt']} />
          )}
          <NoRecoveryField value={noRecovery} onChange={setNoRecovery} error={faults['noRecovery']} />
        </>
      )}
    </FormDialog>
  );
}
