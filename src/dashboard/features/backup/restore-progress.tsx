import { apiQuery, useApiChange, type BackupRestore } from '../../api/index.ts';
import { useRefusal } from '../../session.ts';
import {
  type Facts,
  FailedPaths,
  type Work,
  WorkDetails,
  formatBytes,
  formatCount,
  formatCounted,
  formatTime,
  workOf,
} from '../../ui/index.ts';
import { DeviceLink } from './selects.tsx';
import { ENGINE_NAMES, placeName } from './texts.ts';

const REFRESHES = ['GET /backup/restore/{id}', 'GET /backup/restore'] as const;
const NO_RERUN = 'The restore of a database is not run again. Order a new one into an empty folder.';
const NEW_FOLDER = 'A new one, named when it is made';
const RULES = { never: 'Kept', ifNewer: 'Replaced where older', always: 'Replaced' };

/** A restore in the words of all work. */
export function restoreWork(restore: BackupRestore): Work {
  const { waitingFor, expiresAt, progress, stalledSince, error, completedAt } = restore;
  const cause =
    waitingFor === 'device' ? 'It waits for the device, which is offline' : 'It waits for its turn';
  return {
    ...workOf(restore),
    waits: `${cause}, until ${formatTime(new Date(expiresAt))} at most.`,
    standing: { ...progress, stalledSince },
    error,
    outcome: amount(restore),
    finishedAt: completedAt,
  };
}

/** One restore: how far it is, and how it ended. */
export function RestoreProgress({ id }: { id: string }) {
  const refusal = useRefusal('recovery:execute');
  const cancel = useApiChange('POST /backup/restore/{id}/cancel', { refreshes: REFRESHES });
  const rerun = useApiChange('POST /backup/restore/{id}/rerun', { refreshes: REFRESHES });
  return (
    <WorkDetails
      id={id}
      name="the restore"
      read={(opened) => apiQuery('GET /backup/restore/{id}', { params: { id: opened } })}
      reads={REFRESHES}
      workOf={restoreWork}
      heading={({ dryRun, deviceId }) => (
        <>
          {dryRun ? 'Trial restore to ' : 'Restore to '}
          <DeviceLink id={deviceId} />
        </>
      )}
      cancel={() => ({
        refusal,
        run: () => cancel.mutateAsync({ params: { id } }),
        question: {
          title: 'Stop this restore',
          text: 'Files that were restored so far stay on the device.',
          confirm: 'Stop the restore',
        },
      })}
      retry={({ status, database }) =>
        (status === 'failed' || status === 'partial') && {
          label: 'Run it again',
          refusal: refusal ?? (database === null ? undefined : NO_RERUN),
          run: () => rerun.mutateAsync({ params: { id } }),
        }
      }
      facts={(restore) => [
        [restore.restoreType === 'image' ? 'Onto' : 'Folder', restore.targetPath ?? NEW_FOLDER],
        [restore.dryRun ? 'Would be restored' : 'Restored', amount(restore)],
        ['Kept', restore.skippedFiles === null ? undefined : formatCounted(restore.skippedFiles, 'file')],
        ...factsOf(restore),
      ]}
    >
      {({ failed }) => <FailedPaths title="Paths that could not be restored" {...failed} />}
    </WorkDetails>
  );
}

function factsOf(restore: BackupRestore): Facts {
  const { database, machine } = restore;
  if (database !== null) return factsOfDatabase(database);
  if (restore.restoreType === 'image') {
    return [
      ['Disk', restore.disk ?? 'The only one of the snapshot'],
      ['What was there', restore.overwrite === 'always' ? 'Replaced' : 'Never touched'],
    ];
  }
  return machine === null
    ? factsOfFiles(restore)
    : [
        ['Machine', machine.name ?? 'The only one of the snapshot'],
        ['Called then', machine.vmName ?? 'As before'],
        ['Id', machine.generateNewId ? 'A new one' : 'As before'],
      ];
}

const factsOfFiles = ({ overwrite, selectedPaths, volume }: BackupRestore): Facts => [
  ['File system', volume === null ? undefined : placeName(volume.disk, volume.partition)],
  ['Existing files', RULES[overwrite]],
  ['Paths', selectedPaths === null ? 'Everything' : selectedPaths.join(', ')],
];

function factsOfDatabase(database: NonNullable<BackupRestore['database']>): Facts {
  const { engine, pointInTime, noRecovery, snapshots, targetDatabase, result } = database;
  const recoveredTo = result?.recoveredTo ?? null;
  const later = engine === 'mssql' ? 'Waits for more logs' : 'When its server starts with the folder';
  return [
    ['Database', ENGINE_NAMES[engine]],
    ['New database', targetDatabase],
    ['To', pointInTime === null ? 'The end of the snapshot' : formatTime(new Date(pointInTime))],
    ['Snapshots', formatCount(snapshots)],
    ['Recovery', noRecovery || result?.isRecovered === false ? later : 'A part of the restore'],
    ['Newest change in it', recoveredTo === null ? undefined : formatTime(new Date(recoveredTo))],
  ];
}

function amount({
  restoredFiles,
  restoredSize,
}: {
  restoredFiles: number | null;
  restoredSize: number | null;
}) {
  if (restoredFiles === null) return undefined;
  return `${formatCounted(restoredFiles, 'file')}${restoredSize === null ? '' : `, ${formatBytes(restoredSize)}`}`;
}
