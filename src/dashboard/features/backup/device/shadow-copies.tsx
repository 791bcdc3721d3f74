import { Group, Text } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { call, type DeviceVss } from '../../../api/index.ts';
import { useRefusal } from '../../../session/index.ts';
import {
  Action,
  Failure,
  formatCount,
  formatCounted,
  PagedTable,
  Panel,
  StateBadge,
  When,
  type Tone,
} from '../../../ui/index.ts';

type Vss = DeviceVss['data'];
type Writer = Vss['writers'][number];

const STATES: Readonly<Record<Vss['status'], { tone: Tone; label: string; text: string }>> = {
  ready: { tone: 'good', label: 'Ready', text: 'Every program that takes part is ready for a backup.' },
  busy: { tone: 'info', label: 'Busy', text: 'A backup is going on, and programs wait for its end.' },
  failed: {
    tone: 'bad',
    label: 'Failed',
    text: 'Some programs did not take part the last time, so their data may be missing or not whole in backups. Restarting their service often helps.',
  },
  unknown: {
    tone: 'warning',
    label: 'Not known',
    text: 'Windows lists no writers, or does not say how they are.',
  },
};

const WRITERS: Readonly<Record<Writer['status'], { tone: Tone; label: string }>> = {
  failed: { tone: 'bad', label: 'Failed' },
  unknown: { tone: 'warning', label: 'Not known' },
  waiting: { tone: 'info', label: 'Waits' },
  stable: { tone: 'good', label: 'Stable' },
};
const ORDER = Object.keys(WRITERS);

/** Whether Windows can make shadow copies, from which files in use are backed up. The device is asked on demand. */
export function ShadowCopies({ deviceId }: { deviceId: string }) {
  const refusal = useRefusal('backup:read');
  const look = useMutation({
    mutationFn: () => call('GET /backup/vss/status/{deviceId}', { params: { deviceId } }),
  });
  const found = look.data?.data;
  return (
    <Panel
      title="Shadow copies (VSS)"
      aside={
        <Action
          variant="default"
          size="compact-sm"
          refusal={refusal}
          loading={look.isPending}
          onClick={() => look.mutate()}
        >
          {found === undefined ? 'Ask the device' : 'Ask again'}
        </Action>
      }
    >
      {look.error !== null && <Failure error={look.error} />}
      {found !== undefined ? (
        <Found vss={found} />
      ) : (
        look.error === null && (
          <Text size="sm">
            Files in use are backed up from shadow copies. Ask the device whether its programs take part.
          </Text>
        )
      )}
    </Panel>
  );
}

function Found({ vss: { status, writers, providers, checkedAt } }: { vss: Vss }) {
  const { text, ...badge } = STATES[status];
  const stable = writers.filter((writer) => writer.status === 'stable').length;
  return (
    <>
      <Group gap="xs" wrap="nowrap" align="flex-start">
        <StateBadge {...badge} />
        <Text size="sm">{text}</Text>
      </Group>
      {writers.length > 0 && (
        <PagedTable
          label="Writers of shadow copies"
          // What has failed comes first.
          rows={writers
            .map((writer, place) => ({ ...writer, key: `${writer.writerId} ${place}` }))
            .sort(
              (a, b) => ORDER.indexOf(a.status) - ORDER.indexOf(b.status) || a.name.localeCompare(b.name),
            )}
          keyOf={({ key }) => key}
          columns={[
            { header: 'Writer', isName: true, cell: ({ name }) => name },
            { header: 'State', width: 120, cell: (writer) => <StateBadge {...WRITERS[writer.status]} /> },
            { header: 'Last error, as Windows says it', cell: ({ lastError }) => lastError || '–' },
          ]}
        />
      )}
      <Text size="xs">
        {formatCount(stable)} of {formatCounted(writers.length, 'writer')} stable
        {providers.length > 0 && `. Copies are made by ${providers.map(({ name }) => name).join(', ')}`}.
        Asked <When at={checkedAt} />.
      </Text>
    </>
  );
}
