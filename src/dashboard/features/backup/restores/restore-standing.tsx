import { Group, Stack, Text, Title } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect } from 'react';
import { apiQuery, useApiChange, type BackupRestore } from '../../../api/index.ts';
import { useLiveJobs } from '../../../live/index.ts';
import { useRefusal } from '../../../session/index.ts';
import {
  Action,
  ConfirmAction,
  formatBytes,
  formatCount,
  formatTime,
  JobStateBadge,
  Loaded,
} from '../../../ui/index.ts';
import { DeviceLink } from '../parts/device-names.tsx';
import { ENGINE_NAMES } from '../parts/database-names.ts';
import { FactTable, type Facts } from '../parts/facts.tsx';
import { Cause, FailedPaths } from '../parts/faults.tsx';
import { placeName } from '../parts/content-text.ts';
import { WorkProgress } from '../parts/work-progress.tsx';

const REFRESHES = ['GET /backup/restore/{id}', 'GET /backup/restore'] as const;
const NO_RERUN = 'The restore of a database is not run again. Order a new one into an empty folder.';
const NEW_FOLDER = 'A new one, named when it is made';
const RULES = { never: 'Kept', ifNewer: 'Replaced where older', always: 'Replaced' };

/** One restore: how far it is, and how it ended. */
export function RestoreStanding({ id }: { id: string }) {
  const queries = useQueryClient();
  const refusal = useRefusal('recovery:execute');
  const query = useQuery(apiQuery('GET /backup/restore/{id}', { params: { id } }));
  const [live] = useLiveJobs({ jobId: id });
  const cancel = useApiChange('POST /backup/restore/{id}/cancel', { refreshes: REFRESHES });
  const rerun = useApiChange('POST /backup/restore/{id}/rerun', { refreshes: REFRESHES });
  const state = live?.state;
  useEffect(() => {
    if (state === undefined) return;
    for (const read of REFRESHES) void queries.invalidateQueries({ queryKey: [read] });
  }, [state, queries]);
  return (
    <Loaded query={query} what="Reading the restore">
      {(restore) => {
        const isOpen = restore.status === 'pending' || restore.status === 'running';
        const isFailed = restore.status === 'failed' || restore.status === 'partial';
        return (
          <Stack gap="sm">
            <Group justify="space-between">
              <Group gap="xs">
                <Title order={2} size="h4">
                  {restore.dryRun ? 'Trial restore to ' : 'Restore to '}
                  <DeviceLink id={restore.deviceId} />
                </Title>
                <JobStateBadge state={restore.status} />
              </Group>
              {isOpen && (
                <ConfirmAction
                  variant="default"
                  refusal={refusal}
                  title="Stop this restore"
                  question="Files that were restored so far stay on the device."
                  confirm="Stop the restore"
                  run={() => cancel.mutateAsync({ params: { id } })}
                >
                  Cancel
                </ConfirmAction>
              )}
              {isFailed && (
                <Action
                  variant="default"
                  refusal={refusal ?? (restore.database === null ? undefined : NO_RERUN)}
                  loading={rerun.isPending}
                  onClick={() => rerun.mutate({ params: { id } })}
                >
                  Run it again
                </Action>
              )}
            </Group>
            {restore.status === 'pending' && (
              <Text size="sm">
                {restore.waitingFor === 'device'
                  ? 'It waits for the device, which is offline'
                  : 'It waits for its turn'}
                , until {formatTime(new Date(restore.expiresAt))} at most.
              </Text>
            )}
            {restore.status === 'running' && (
              <WorkProgress
                label="Progress of the restore"
                standing={{ ...restore.progress, stalledSince: restore.stalledSince, ...live }}
              />
            )}
            <Cause error={restore.error} />
            <FailedPaths title="Paths that could not be restored" {...restore.failed} />
            <FactTable
              label="About the restore"
              facts={[
                [restore.restoreType === 'image' ? 'Onto' : 'Folder', restore.targetPath ?? NEW_FOLDER],
                [restore.dryRun ? 'Would be restored' : 'Restored', amount(restore)],
                [
                  'Kept',
                  restore.skippedFiles === null ? undefined : `${formatCount(restore.skippedFiles)} files`,
                ],
                ...factsOf(restore),
                ['Started', restore.startedAt === null ? undefined : formatTime(new Date(restore.startedAt))],
                [
                  'Ended',
                  restore.completedAt === null ? undefined : formatTime(new Date(restore.completedAt)),
                ],
              ]}
            />
          </Stack>
        );
      }}
    </Loaded>
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
  return `${formatCount(restoredFiles)} files${restoredSize === null ? '' : `, ${formatBytes(restoredSize)}`}`;
}
