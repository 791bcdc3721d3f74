import { Group, Progress, Stack } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { IconKey } from '@tabler/icons-react';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useState } from 'react';
import type { JobUpdate } from '../../../../protocol/index.ts';
import { apiQuery, type BackupSnapshot, type RecoveryToken } from '../../../api/index.ts';
import { scopeQuery, useScope } from '../../../routing/index.ts';
import { useRefusal } from '../../../session/index.ts';
import { Action, Empty, Loaded, PagedTable, StateBadge, When } from '../../../ui/index.ts';
import { BackupFrame } from '../parts/backup-frame.tsx';
import { ChooseImageDialog } from '../parts/choose-image.tsx';
import { DeviceLink, DeviceSelect } from '../parts/device-names.tsx';
import { NewTokenDialog } from './new-token-dialog.tsx';
import { RevokeToken, TokenDrawer } from './token-standing.tsx';
import { disksText, isOpen, SESSIONS, STATES } from './token-texts.ts';
import { useRecoveries } from './use-recoveries.ts';

const route = getRouteApi('/signed-in/backup/bare-metal');
const REFRESH_MS = 15_000;

/** Tokens by which machines without an agent fetch their disks, and how far they are. */
export function TokensPage() {
  const { device, recovery, page = 1 } = route.useSearch();
  const navigate = route.useNavigate();
  const { orgId } = scopeQuery(useScope());
  const live = useRecoveries(orgId);
  const change = (next: Partial<ReturnType<typeof route.useSearch>>) =>
    void navigate({ search: (previous) => ({ ...previous, ...next }), replace: true });
  const tokens = useQuery({
    ...apiQuery('GET /backup/bmr/token', { query: { orgId, deviceId: device, page: String(page) } }),
    refetchInterval: REFRESH_MS,
    placeholderData: keepPreviousData,
  });
  return (
    <BackupFrame
      title="Bare-metal recovery"
      description="A token lets a new or empty machine, without an agent, fetch the disks of one snapshot once."
      actions={<NewToken />}
    >
      <Group>
        <DeviceSelect
          label="Any device"
          hidesLabel
          value={device}
          onChange={(next) => change({ device: next, page: undefined })}
        />
      </Group>
      <Loaded query={tokens} what="Reading recovery tokens">
        {({ data, pagination }) =>
          data.length === 0 ? (
            <Empty title="No recovery token was created">
              Create one here, or in a snapshot of whole disks, when a machine has to come back from nothing.
            </Empty>
          ) : (
            <PagedTable
              label="Recovery tokens"
              rows={data}
              keyOf={({ id }) => id}
              page={pagination}
              onPage={(next) => change({ page: next })}
              columns={[
                { header: 'Of device', isName: true, cell: ({ deviceId }) => <DeviceLink id={deviceId} /> },
                { header: 'Token', width: 110, cell: ({ status }) => <StateBadge {...STATES[status]} /> },
                {
                  header: 'Recovery',
                  width: 150,
                  cell: (token) => <Recovery token={token} job={live.get(token.id)} />,
                },
                { header: 'What', cell: disksText },
                { header: 'Onto', cell: ({ machine }) => machine?.hostname ?? '–' },
                { header: 'Valid until', width: 110, cell: ({ expiresAt }) => <When at={expiresAt} /> },
                {
                  header: 'Actions',
                  align: 'right',
                  width: 170,
                  cell: (token) => (
                    <Group gap={2} justify="flex-end" wrap="nowrap">
                      {isOpen(token) && <RevokeToken token={token} size="compact-xs" variant="subtle" />}
                      <Action
                        size="compact-xs"
                        variant="subtle"
                        onClick={() => change({ recovery: token.id })}
                      >
                        Details
                      </Action>
                    </Group>
                  ),
                },
              ]}
            />
          )
        }
      </Loaded>
      <TokenDrawer id={recovery} onClose={() => change({ recovery: undefined })} />
    </BackupFrame>
  );
}

function Recovery({ token, job }: { token: RecoveryToken; job: JobUpdate | undefined }) {
  const { sessionStatus, status } = token;
  if (sessionStatus === 'pending') return '–';
  if (sessionStatus !== 'running') return <StateBadge {...SESSIONS[sessionStatus]} />;
  if (status !== 'authenticated') return <StateBadge tone="warning" label="Cut off" />;
  return (
    <Stack gap={3} align="flex-start">
      <StateBadge {...SESSIONS.running} />
      <Progress
        w="100%"
        size="xs"
        value={job?.percent ?? 100}
        animated={job?.percent == null}
        aria-label="Progress of the recovery"
      />
    </Stack>
  );
}

/** First the snapshot, then what the token is for. */
function NewToken() {
  const refusal = useRefusal('recovery:execute');
  const [isChoosing, { open, close }] = useDisclosure(false);
  const [snapshot, setSnapshot] = useState<BackupSnapshot>();
  return (
    <>
      <Action refusal={refusal} leftSection={<IconKey size={14} aria-hidden />} onClick={open}>
        New token …
      </Action>
      {isChoosing && <ChooseImageDialog onChoose={setSnapshot} onClose={close} />}
      {snapshot !== undefined && (
        <NewTokenDialog snapshot={snapshot} onClose={() => setSnapshot(undefined)} />
      )}
    </>
  );
}
