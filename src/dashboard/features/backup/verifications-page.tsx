import { Text } from '@mantine/core';
import { getRouteApi } from '@tanstack/react-router';
import { useApiChange, useList, type BackupVerification } from '../../api/index.ts';
import { useLiveWork } from '../../live/index.ts';
import type { JobUpdate } from '../../../protocol/index.ts';
import { scopeQuery, useScope } from '../../routing.ts';
import { useRefusal } from '../../session.ts';
import {
  Action,
  Failure,
  formatCount,
  formatDuration,
  useAddress,
  DetailsDrawer,
  Warnings,
  type Work,
  WorkList,
  WorkReport,
  formatBytes,
  workOf,
} from '../../ui/index.ts';
import { BackupFrame } from './backup-frame.tsx';
import { ToSnapshot } from './job-drawer.tsx';
import { deviceFacet, DeviceLink } from './selects.tsx';

const route = getRouteApi('/signed-in/backup/verifications');
const REFRESH_MS = 15_000;
const SECOND_MS = 1000;
/** Proofs that backups can be read and restored. */
export function VerificationsPage() {
  const address = useAddress(route.useSearch());
  const { device, verification, page = 1 } = address.search;
  const { orgId } = scopeQuery(useScope());
  const refusal =
    useRefusal('backup:execute') ?? (device === undefined ? 'Choose a device first.' : undefined);
  const verify = useApiChange('POST /backup/verify', { refreshes: ['GET /backup/verifications'] });
  const verifications = useList(
    'GET /backup/verifications',
    { query: { orgId, deviceId: device, page: String(page) } },
    REFRESH_MS,
  );
  const live = useLiveWork('verification', orgId, ['GET /backup/verifications']);
  const opened = verifications.data?.data.find(({ id }) => id === verification);
  const begin = (verificationType: 'integrity' | 'test_restore') => {
    if (device !== undefined) verify.mutate({ body: { deviceId: device, verificationType } });
  };
  return (
    <WorkList
      frame={BackupFrame}
      title="Verifications"
      description="The server verifies backups by itself; a device can also be verified by hand."
      actions={
        <>
          <Action variant="default" refusal={refusal} onClick={() => begin('integrity')}>
            Check the data
          </Action>
          <Action variant="default" refusal={refusal} onClick={() => begin('test_restore')}>
            Test a restore
          </Action>
        </>
      }
      notice={verify.error !== null && <Failure error={verify.error} />}
      query={verifications}
      noun="verifications"
      address={address}
      facets={[deviceFacet(address)]}
      empty={{ title: 'Nothing was verified', text: 'Choose a device to verify its backups now.' }}
      noneFound={{ title: 'Nothing was verified', text: 'The backups of this device can be verified now.' }}
      workOf={verificationWork}
      live={live}
      subject={[
        { header: 'Device', isName: true, cell: ({ deviceId }) => <DeviceLink id={deviceId} /> },
        { header: 'Kind', cell: kindText },
      ]}
      columns={[
        {
          header: 'Files',
          align: 'right',
          width: 90,
          cell: ({ filesVerified }) => formatCount(filesVerified),
        },
        { header: 'Restore took', width: 110, cell: (each) => restoreTime(each) ?? '–' },
      ]}
      onOpen={(id) => address.set({ verification: id })}
    >
      <DetailsDrawer
        opened={opened}
        onClose={() => address.set({ verification: undefined })}
        title="Verification"
      >
        {(row) => <VerificationReport row={row} live={live.get(row.id)} />}
      </DetailsDrawer>
    </WorkList>
  );
}

const kindText = ({ verificationType }: BackupVerification): string =>
  verificationType === 'integrity' ? 'The data was read' : 'A restore was tested';

const restoreTime = ({ restoreTimeSeconds: seconds }: BackupVerification): string | undefined =>
  seconds === null ? undefined : formatDuration(seconds * SECOND_MS);

/** A verification in the words of all work. */
const verificationWork = (verification: BackupVerification): Work => ({
  ...workOf(verification),
  error: causeOf(verification),
  outcome: <Findings verification={verification} />,
  startedBy: verification.createdBy === null ? 'Muster' : 'A person',
  finishedAt: verification.finishedAt,
});

const causeOf = ({ errorCode, errorMessage }: BackupVerification) =>
  errorMessage === null ? null : { code: errorCode ?? 'NOT_VERIFIED', message: errorMessage };

/** The findings of one verification. */
const VerificationReport = (props: { row: BackupVerification; live: JobUpdate | undefined }) => (
  <WorkReport
    {...props}
    name="the verification"
    workOf={verificationWork}
    heading={({ deviceId }) => <DeviceLink id={deviceId} />}
    facts={(row) => [
      ['Kind', kindText(row)],
      ['Files verified', formatCount(row.filesVerified)],
      ['Files that failed', formatCount(row.filesFailed)],
      ['Restore took', restoreTime(row)],
      ['Restored', row.sizeBytes === 0 ? undefined : formatBytes(row.sizeBytes)],
      ['Snapshot', row.snapshotId === null ? undefined : <ToSnapshot key="snapshot" id={row.snapshotId} />],
    ]}
  >
    {({ details }) => (
      <Warnings
        title={details.errorsAreCut === true ? 'The first errors that were found' : 'Errors that were found'}
        warnings={details.errors ?? []}
      />
    )}
  </WorkReport>
);

/** The findings in a few lines of the list. */
function Findings({ verification: { filesFailed, details } }: { verification: BackupVerification }) {
  const faults = details.errors ?? [];
  if (faults.length === 0) {
    if (filesFailed > 0) return `${formatCount(filesFailed)} files were not as they should be.`;
    return details.part === undefined ? '–' : `Part ${details.part.part} of ${details.part.of}`;
  }
  return (
    <>
      {faults.slice(0, 3).map((fault) => (
        <Text key={fault} size="sm">
          {fault}
        </Text>
      ))}
      {faults.length > 3 && (
        <Text size="sm">
          and {details.errorsAreCut === true ? 'more than ' : ''}
          {formatCount(faults.length - 3)} more
        </Text>
      )}
    </>
  );
}
