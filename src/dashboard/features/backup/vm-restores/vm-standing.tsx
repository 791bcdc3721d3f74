import { Anchor, Drawer, Group, Stack, Text, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { apiQuery, useRefreshOn, type VmRestore } from '../../../api/index.ts';
import { useLiveJobs } from '../../../live/index.ts';
import { CopyText, formatBytes, formatTime, Loaded, StateBadge, When } from '../../../ui/index.ts';
import { DeviceLink } from '../parts/device-names.tsx';
import { FactTable } from '../parts/facts.tsx';
import { Cause } from '../parts/faults.tsx';
import { Warnings } from '../parts/warnings.tsx';
import { WorkProgress } from '../parts/work-progress.tsx';
import { VM_READS } from './use-vm-work.ts';
import { VmActions } from './vm-actions.tsx';
import { BUSY, KIND_NAMES, networkText, noteOf, OVER, stateOf } from './vm-texts.ts';

const MIB = 2 ** 20;
const REFRESH_MS = 15_000;

export function VmDrawer({ id, onClose }: { id: string | undefined; onClose: () => void }) {
  return (
    <Drawer
      opened={id !== undefined}
      onClose={onClose}
      position="right"
      size="lg"
      title="Machine of a snapshot"
      closeButtonProps={{ 'aria-label': 'Close' }}
    >
      {id !== undefined && <VmStanding key={id} id={id} />}
    </Drawer>
  );
}

/** One machine of a snapshot: what it does, how it is reached, and what can be done with it. */
function VmStanding({ id }: { id: string }) {
  const query = useQuery({
    ...apiQuery('GET /backup/restore/vm/{id}', { params: { id } }),
    // What a machine does, its host is asked every minute.
    refetchInterval: REFRESH_MS,
  });
  const [live] = useLiveJobs({ jobId: id });
  useRefreshOn(live === undefined ? '' : `${live.state} ${live.phase} ${live.at}`, VM_READS);
  return (
    <Loaded query={query} what="Reading the machine">
      {(restore) => {
        const { status, error, warnings } = restore;
        const note = noteOf(restore);
        return (
          <Stack gap="sm">
            <Group gap="xs">
              <Title order={2} size="h4" style={{ overflowWrap: 'anywhere' }}>
                {restore.vmName}
              </Title>
              <StateBadge {...stateOf(restore)} />
              <Text size="sm">{KIND_NAMES[restore.kind]}</Text>
            </Group>
            <VmActions restore={restore} />
            {note !== undefined && <Text size="sm">{note}</Text>}
            {status === 'pending' ? (
              <Text size="sm">
                It waits for its host, until {formatTime(new Date(restore.expiresAt))} at most.
              </Text>
            ) : (
              BUSY.includes(status) && (
                <WorkProgress label="Progress of the work" standing={{ ...restore.progress, ...live }} />
              )
            )}
            <Cause error={error} title={OVER.includes(status) ? 'It failed' : 'It needs attention'} />
            <Warnings warnings={warnings} />
            <Reach restore={restore} />
            <Facts restore={restore} />
          </Stack>
        );
      }}
    </Loaded>
  );
}

/** Where people find a machine that is there. */
function Reach({ restore: { forwards, console: screen, hostDeviceName } }: { restore: VmRestore }) {
  if (forwards.length === 0 && screen === null) return null;
  return (
    <Stack gap={4}>
      <Title order={3} size="h5">
        On its host {hostDeviceName}
      </Title>
      {forwards.map(({ hostPort, guestPort }) => (
        <div key={guestPort}>
          <Text size="sm">Port {guestPort} of the machine:</Text>
          <CopyText label={`Address of port ${guestPort}`} text={`127.0.0.1:${hostPort}`} />
        </div>
      ))}
      {screen !== null && (
        <div>
          <Text size="sm">Its screen, for a VNC viewer of an administrator of the host:</Text>
          <CopyText label="Socket of the screen" text={screen} />
        </div>
      )}
    </Stack>
  );
}

function Facts({ restore }: { restore: VmRestore }) {
  const { vmSpecs, snapshotId, stateAt, folder, accelerator, startedAt, completedAt } = restore;
  return (
    <FactTable
      label="About the machine"
      facts={[
        ['Host', <DeviceLink key="host" id={restore.deviceId} />],
        [
          'Snapshot',
          snapshotId === null ? (
            'It is gone'
          ) : (
            <Anchor
              key="snapshot"
              inherit
              renderRoot={(props) => (
                <Link {...props} to="/backup/snapshots/$snapshotId" params={{ snapshotId }} />
              )}
            >
              Open it
            </Anchor>
          ),
        ],
        ['State as of', stateAt === null ? undefined : <When key="state" at={stateAt} />],
        ['Memory', formatBytes(vmSpecs.memoryMb * MIB)],
        ['Processors', String(vmSpecs.cpuCount)],
        ['First disk', vmSpecs.diskSizeGb === null ? undefined : `Grown to ${vmSpecs.diskSizeGb} GiB`],
        ['Network', networkText(restore)],
        ['Speed', accelerator === 'tcg' ? 'Slow: its processors are emulated' : undefined],
        ['Folder', folder],
        ['Started', startedAt === null ? undefined : formatTime(new Date(startedAt))],
        ['Ended', completedAt === null ? undefined : formatTime(new Date(completedAt))],
      ]}
    />
  );
}
