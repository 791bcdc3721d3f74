import { Checkbox, Radio, Stack, Text, TextInput } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { useApiChange, type BackupDatabaseInstance } from '../../api/index.ts';
import { FormDialog, formatTime } from '../../ui/index.ts';
import { DeviceSelect } from './selects.tsx';
import { fromLocalField, localField, secondFrom, secondUpTo, withOffset } from './texts.ts';
import { timeZone } from './schedule.tsx';

interface Range {
  from: string;
  to: string;
}

type Engine = BackupDatabaseInstance['engine'];

export interface DatabaseSource {
  snapshotId: string;
  orgId: string;
  deviceId: string;
  engine: Engine;
  databases: readonly string[];
  /** Up to when the snapshot holds everything. */
  upTo: string | null;
  /** Every point in time within these can be restored, the earliest first. Without any, only the snapshot. */
  ranges: readonly Range[];
}

interface Texts {
  title: string;
  folder: string;
  placeholder: string;
  noRecovery: string;
}

const OF_SERVER: Texts = {
  title: 'Restore a database server',
  folder:
    'An empty folder of the device that belongs to the user of the database. A running server is not touched.',
  placeholder: '/srv/restored',
  noRecovery: 'The files are laid ready. They are recovered when a server starts with them.',
};
const TEXTS: Readonly<Record<Engine, Texts>> = {
  postgresql: OF_SERVER,
  mariadb: { ...OF_SERVER, noRecovery: 'Not possible: a backup of MariaDB is made ready in any case.' },
  mssql: {
    title: 'Restore a database of SQL Server',
    folder:
      'A folder of the device that the service of SQL Server reads. The backups lie there while they are restored.',
    placeholder: String.raw`D:\Restored`,
    noRecovery: 'The database then waits for more logs, and cannot be used until the last of them.',
  },
};

/** Restores a database server into a folder of a device, and leads to the restore. */
export function RestoreDatabaseDialog({
  source: { snapshotId, orgId, deviceId: before, engine, databases, upTo, ranges },
  asOf,
  onClose,
}: {
  source: DatabaseSource;
  /** The state of the backup store that is restored from; without it, that of now. */
  asOf?: string | undefined;
  onClose: () => void;
}) {
  const navigate = useNavigate();
  const [deviceId, setDevice] = useState<string | undefined>(before);
  const [isInstant, setInstant] = useState(ranges.length > 0);
  const [instant, setText] = useState(() => latest(ranges));
  const [targetPath, setPath] = useState('');
  const [targetDatabase, setTarget] = useState(`${databases[0] ?? 'database'}_restored`);
  const [noRecovery, setNoRecovery] = useState(false);
  const restore = useApiChange('POST /backup/databases/restore', { refreshes: ['GET /backup/restore'] });
  const at = isInstant ? fromLocalField(instant) : undefined;
  const texts = TEXTS[engine];
  const submit = async () => {
    const { id } = await restore.mutateAsync({
      body: {
        snapshotId,
        ...(deviceId === undefined ? {} : { deviceId }),
        targetPath: targetPath.trim(),
        ...(engine === 'mssql' ? { targetDatabase: targetDatabase.trim() } : {}),
        ...(at === undefined ? {} : { pointInTime: withOffset(at) }),
        noRecovery,
        ...(asOf === undefined ? {} : { asOf }),
      },
    });
    await navigate({ to: '/backup/restores', search: { restore: id } });
  };
  return (
    <FormDialog title={texts.title} size="lg" opened onClose={onClose} submitLabel="Restore" submit={submit}>
      {(faults) => (
        <>
          <DeviceSelect
            label="To which device"
            description="The device that was backed up, or another one of its organization."
            orgId={orgId}
            value={deviceId}
            onChange={setDevice}
            error={faults['deviceId']}
          />
          <Radio.Group
            label="To which state"
            value={isInstant ? 'instant' : 'end'}
            onChange={(value) => setInstant(value === 'instant')}
          >
            <Stack gap="xs" mt="xs">
              <Radio
                value="instant"
                disabled={ranges.length === 0}
                label="A point in time"
                description={
                  ranges.length === 0
                    ? 'Logs are needed for that. The page “Databases” shows what can be restored.'
                    : rangesText(ranges)
                }
              />
              <Radio
                value="end"
                label="The end of the snapshot"
                description={
                  upTo === null
                    ? 'All that it holds.'
                    : `Up to ${formatTime(new Date(upTo))} (${timeZone()}).`
                }
              />
            </Stack>
          </Radio.Group>
          {isInstant && (
            <TextInput
              type="datetime-local"
              step={1}
              required
              label={`Point in time (${timeZone()})`}
              description={at === undefined ? 'Date and time.' : `That is ${withOffset(at)}.`}
              value={instant}
              onChange={(event) => setText(event.currentTarget.value)}
              error={faults['pointInTime'] ?? faultOf(at, ranges)}
            />
          )}
          {engine === 'mssql' && (
            <TextInput
              label="New database"
              required
              description="A new name: nothing that is there is replaced."
              value={targetDatabase}
              onChange={(event) => setTarget(event.currentTarget.value)}
              error={faults['targetDatabase']}
            />
          )}
          <TextInput
            label="Folder"
            required
            description={texts.folder}
            placeholder={texts.placeholder}
            value={targetPath}
            onChange={(event) => setPath(event.currentTarget.value)}
            error={faults['targetPath']}
            data-autofocus
          />
          <Checkbox
            label="Without recovery"
            description={texts.noRecovery}
            disabled={engine === 'mariadb'}
            checked={noRecovery}
            onChange={(event) => setNoRecovery(event.currentTarget.checked)}
            error={faults['noRecovery']}
          />
          <Text size="sm">The page “Restores” shows how it goes on.</Text>
        </>
      )}
    </FormDialog>
  );
}

function latest(ranges: readonly Range[]): string {
  const last = ranges.at(-1);
  return last === undefined ? '' : localField(secondUpTo(last.to));
}

const rangesText = (ranges: readonly Range[]): string =>
  `${ranges
    .map(({ from, to }) => `From ${formatTime(secondFrom(from))} to ${formatTime(secondUpTo(to))}`)
    .join('; ')} (${timeZone()}).`;

/** Said before anything is sent. The server judges by itself. */
function faultOf(at: Date | undefined, ranges: readonly Range[]): string | undefined {
  if (at === undefined) return undefined;
  const isIn = ranges.some(
    ({ from, to }) => Date.parse(from) <= at.getTime() && at.getTime() <= Date.parse(to),
  );
  return isIn ? undefined : 'This point in time cannot be restored. Choose one within what is named above.';
}
