import { apiQuery, useApiChange, type BackupJob } from '../../api/index.ts';
import { useRefusal } from '../../session.ts';
import {
  FailedPaths,
  formatBytes,
  formatCounted,
  formatTime,
  TextLink,
  WorkDrawer,
  workOf,
  type Work,
} from '../../ui/index.ts';
import { DeviceLink } from './selects.tsx';

/** Why a job has not begun. */
const WAITS = {
  device: 'It waits for its device, which is offline.',
  due_time: 'It waits for its time.',
  turn: 'It waits for its turn: other work goes first.',
} as const;

/** A backup job in the words of all work. */
export function backupWork(job: BackupJob): Work {
  const { progress, status, unreadable, waitingFor } = job;
  return {
    ...workOf(job),
    waits: waitingFor === null ? undefined : WAITS[waitingFor],
    standing: {
      ...progress,
      done: progress.doneBytes,
      total: progress.totalBytes,
      filesDone: progress.doneFiles,
      filesTotal: progress.totalFiles,
      path: progress.currentPath,
    },
    error: job.error,
    errorTitle: status === 'partial' ? 'It is not whole' : 'It failed',
    outcome:
      unreadable.count > 0 ? `${formatCounted(unreadable.count, 'file')} could not be read.` : undefined,
    cancelRequestedAt: job.cancelRequestedAt,
    startedBy: startedBy(job),
    finishedAt: job.finishedAt,
  };
}

export const startedBy = ({ type }: Pick<BackupJob, 'type'>): string =>
  type === 'manual' ? 'A person' : 'Its schedule';

const READS = ['GET /backup/jobs/{id}', 'GET /backup/jobs'] as const;

/** One backup job: how far it is, what went wrong, and which files could not be read. */
export function JobDrawer({ id, onClose }: { id: string | undefined; onClose: () => void }) {
  const refusal = useRefusal('backup:execute');
  const cancel = useApiChange('POST /backup/jobs/{id}/cancel', { refreshes: READS });
  return (
    <WorkDrawer
      title="Backup job"
      name="the backup"
      opened={id}
      onClose={onClose}
      read={(opened) => apiQuery('GET /backup/jobs/{id}', { params: { id: opened } })}
      reads={READS}
      workOf={backupWork}
      heading={({ deviceId }) => <DeviceLink id={deviceId} />}
      cancel={(job) => ({
        refusal,
        run: () => cancel.mutateAsync({ params: { id: job.id } }),
        question: {
          title: 'Stop this backup',
          text: 'What was sent so far stays, and the next backup need not send it again.',
          confirm: 'Stop the backup',
        },
      })}
      note={({ status, expiresAt }) =>
        status === 'pending' && `If it has not begun by ${formatTime(new Date(expiresAt))}, it fails.`
      }
      facts={({ addedBytes, dueAt, snapshotId }) => [
        ['Due', formatTime(new Date(dueAt))],
        ['Added to the store', addedBytes === null ? undefined : formatBytes(addedBytes)],
        ['Snapshot', snapshotId === null ? undefined : <ToSnapshot key="snapshot" id={snapshotId} />],
      ]}
    >
      {({ unreadable, leftOut, shadowCopies }) => (
        <>
          <FailedPaths title="Files that could not be read" {...unreadable} />
          <FailedPaths title="Virtual file systems that were left out" {...leftOut} />
          <FailedPaths
            title="Volumes without a shadow copy, where files in use can be torn"
            count={shadowCopies?.isCut === true ? null : (shadowCopies?.problems.length ?? 0)}
            paths={(shadowCopies?.problems ?? []).map(({ volume, message }) => ({
              path: volume === '' ? 'All volumes' : volume,
              message,
            }))}
          />
        </>
      )}
    </WorkDrawer>
  );
}

/** The way to what a backup has made. */
export const ToSnapshot = ({ id }: { id: string }) => (
  <TextLink inherit to="/backup/snapshots/$snapshotId" params={{ snapshotId: id }}>
    Open it
  </TextLink>
);
