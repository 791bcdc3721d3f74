import { Group, Text } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { apiQuery, useApiChange, type BackupVerification } from '../../../api/index.ts';
import { scopeQuery, useScope } from '../../../routing/index.ts';
import { useRefusal } from '../../../session/index.ts';
import {
  Action,
  Empty,
  Failure,
  formatCount,
  formatDuration,
  formatWord,
  Loaded,
  PagedTable,
  StateBadge,
  When,
  type Tone,
} from '../../../ui/index.ts';
import { BackupFrame } from '../parts/backup-frame.tsx';
import { DeviceLink, DeviceSelect } from '../parts/device-names.tsx';

const route = getRouteApi('/signed-in/backup/verifications');
const REFRESH_MS = 15_000;
const SECOND_MS = 1000;
const TONES: Record<BackupVerification['status'], Tone> = {
  pending: 'neutral',
  running: 'busy',
  passed: 'good',
  partial: 'warning',
  failed: 'bad',
};

/** Proofs that backups can be read and restored. */
export function VerificationsPage() {
  const { device, page } = route.useSearch();
  const navigate = route.useNavigate();
  const { orgId } = scopeQuery(useScope());
  const refusal =
    useRefusal('backup:execute') ?? (device === undefined ? 'Choose a device first.' : undefined);
  const verify = useApiChange('POST /backup/verify', { refreshes: ['GET /backup/verifications'] });
  const verifications = useQuery({
    ...apiQuery('GET /backup/verifications', { query: { orgId, deviceId: device, page: String(page ?? 1) } }),
    refetchInterval: REFRESH_MS,
    placeholderData: keepPreviousData,
  });
  const begin = (verificationType: 'integrity' | 'test_restore') => {
    if (device !== undefined) verify.mutate({ body: { deviceId: device, verificationType } });
  };
  return (
    <BackupFrame
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
    >
      <Group>
        <DeviceSelect
          label="Any device"
          hidesLabel
          value={device}
          onChange={(next) =>
            void navigate({
              search: (previous) => ({ ...previous, page: undefined, device: next }),
              replace: true,
            })
          }
        />
      </Group>
      {verify.error !== null && <Failure error={verify.error} />}
      <Loaded query={verifications} what="Reading verifications">
        {({ data, pagination }) =>
          data.length === 0 ? (
            <Empty title="Nothing was verified">Choose a device to verify its backups now.</Empty>
          ) : (
            <PagedTable
              label="Verifications"
              rows={data}
              keyOf={({ id }) => id}
              page={pagination}
              onPage={(next) => void navigate({ search: (previous) => ({ ...previous, page: next }) })}
              columns={[
                { header: 'Device', isName: true, cell: ({ deviceId }) => <DeviceLink id={deviceId} /> },
                {
                  header: 'Kind',
                  cell: ({ verificationType }) =>
                    verificationType === 'integrity' ? 'The data was read' : 'A restore was tested',
                },
                {
                  header: 'Result',
                  width: 120,
                  cell: ({ status }) => <StateBadge tone={TONES[status]} label={formatWord(status)} />,
                },
                {
                  header: 'What was found',
                  cell: (verification) => <Findings verification={verification} />,
                },
                {
                  header: 'Files',
                  align: 'right',
                  width: 90,
                  cell: ({ filesVerified }) => formatCount(filesVerified),
                },
                {
                  header: 'Restore took',
                  width: 110,
                  cell: ({ restoreTimeSeconds: seconds }) =>
                    seconds === null ? '–' : formatDuration(seconds * SECOND_MS),
                },
                { header: 'Created', width: 110, cell: ({ createdAt }) => <When at={createdAt} /> },
              ]}
            />
          )
        }
      </Loaded>
    </BackupFrame>
  );
}

function Findings({ verification }: { verification: BackupVerification }) {
  const { errorMessage, filesFailed, details } = verification;
  if (errorMessage !== null) return errorMessage;
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
