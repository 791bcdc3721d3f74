import { Text } from '@mantine/core';
import { type Device, type DeviceService, useList } from '../../api/index.ts';
import { type Column, formatCounted, formatWord, List, StateBadge, type Tone, When } from '../../ui/index.ts';
import { joined, useDeviceAddress } from './tab-parts.tsx';

const STATES = ['running', 'stopped', 'failed', 'starting', 'stopping', 'paused'] as const;

const TONES: Record<DeviceService['state'], Tone> = {
  running: 'good',
  stopped: 'neutral',
  failed: 'bad',
  starting: 'busy',
  stopping: 'busy',
  paused: 'warning',
};

/** What has to run with the machine and does not, is worth a look. */
const toneOf = ({ state, startMode }: DeviceService): Tone =>
  state === 'stopped' && startMode === 'automatic' ? 'warning' : TONES[state];

const COLUMNS: readonly Column<DeviceService>[] = [
  { header: 'Name', cell: ({ name, displayName }) => displayName ?? name, isName: true },
  { header: 'Service', cell: ({ name }) => name },
  {
    header: 'State',
    cell: (service) => <StateBadge tone={toneOf(service)} label={formatWord(service.state)} />,
    width: 120,
  },
  {
    header: 'Start',
    cell: ({ startMode }) => (startMode === null ? 'Unknown' : formatWord(startMode)),
    width: 120,
  },
  { header: 'Since', cell: ({ since }) => <When at={since} />, width: 130 },
];

const SHOWN = '50';
const READ_AGAIN_MS = 60_000;

/** The services of this device. */
export function ServicesTab({ device: { id } }: { device: Device }) {
  const address = useDeviceAddress();
  const { q, level, page = 1 } = address.search;
  const query = useList(
    'GET /devices/{id}/services',
    {
      params: { id },
      query: { page: String(page), limit: SHOWN, search: q, state: joined(level, STATES) },
    },
    READ_AGAIN_MS,
  );
  const { manager = null, unlisted = 0 } = query.data ?? {};
  return (
    <>
      <List
        query={query}
        noun="services"
        label="Services"
        keyOf={({ name }) => name}
        address={address}
        facets={[
          { kind: 'text', name: 'q', label: 'Search services', placeholder: 'Search services' },
          { kind: 'chips', name: 'level', label: 'State', options: STATES },
        ]}
        empty={
          manager === 'none'
            ? {
                title: 'No service manager',
                text: 'The agent can read the services of Windows, macOS, and Linux with systemd.',
              }
            : {
                title: 'No services were reported',
                text: 'The agent reports them soon after it has connected. Older agents do not.',
              }
        }
        noneFound={{
          title: 'No service matches these choices',
          text: 'The search looks for a part of either name.',
        }}
        columns={COLUMNS}
      />
      {unlisted > 0 && (
        <Text size="xs" mt="xs">
          The device has {formatCounted(unlisted, 'more service')} than an agent reports.
        </Text>
      )}
    </>
  );
}
