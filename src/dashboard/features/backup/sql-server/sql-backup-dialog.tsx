import { Checkbox, Select, TextInput } from '@mantine/core';
import { useState } from 'react';
import { useApiChange } from '../../../api/index.ts';
import { FormDialog } from '../../../ui/index.ts';
import { BACKUP_TYPE_NAMES, BACKUP_TYPES, type BackupType } from '../parts/database-names.ts';
import type { SqlSource } from './sql-parts.ts';

/** Has SQL Server write a backup into a file on its host. */
export function SqlBackupDialog({
  source,
  onSent,
  onClose,
}: {
  source: SqlSource;
  onSent: (id: string) => void;
  onClose: () => void;
}) {
  const [backupType, setType] = useState<BackupType>('full');
  const [outputPath, setPath] = useState('');
  const [copyOnly, setCopyOnly] = useState(false);
  const backup = useApiChange('POST /backup/mssql/backup');
  const isFull = backupType === 'full';
  const submit = async () => {
    const { id } = await backup.mutateAsync({
      body: { ...source, backupType, outputPath: outputPath.trim(), copyOnly: isFull && copyOnly },
    });
    onSent(id);
  };
  return (
    <FormDialog
      title={`Back up ${source.database} to a file`}
      opened
      onClose={onClose}
      submitLabel="Back up"
      submit={submit}
    >
      {(faults) => (
        <>
          <Select
            label="Type"
            allowDeselect={false}
            data={BACKUP_TYPES.map((value) => ({ value, label: BACKUP_TYPE_NAMES[value] }))}
            value={backupType}
            onChange={(next) => setType(BACKUP_TYPES.find((type) => type === next) ?? 'full')}
            error={faults['backupType']}
          />
          <TextInput
            label="Folder"
            required
            description="As the service of SQL Server sees it, which writes there with its own account. The file gets a new name."
            placeholder={String.raw`D:\Backups`}
            value={outputPath}
            onChange={(event) => setPath(event.currentTarget.value)}
            error={faults['outputPath']}
            data-autofocus
          />
          {isFull && (
            <Checkbox
              label="Copy only"
              description="Differential backups of other programs go on with their own full backup."
              checked={copyOnly}
              onChange={(event) => setCopyOnly(event.currentTarget.checked)}
              error={faults['copyOnly']}
            />
          )}
        </>
      )}
    </FormDialog>
  );
}
