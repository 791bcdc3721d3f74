import { Button, Group, Stack, Text, Title } from '@mantine/core';
import {
  IconAlertTriangle,
  IconApps,
  IconArchive,
  IconDownload,
  IconFolders,
  IconNote,
  IconPencil,
  IconPlugConnected,
  IconPlugConnectedX,
  IconTerminal2,
  IconTool,
  type Icon,
} from '@tabler/icons-react';
import { useInfiniteQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { call, type Device, type TimelineEntry } from '../../api/index.ts';
import {
  ChipChoice,
  Empty,
  formatCounted,
  formatField,
  formatSpan,
  formatTime,
  formatWord,
  Loaded,
  reasonText,
  StateBadge,
  TextLink,
  type Tone,
} from '../../ui/index.ts';
import { SeverityBadge } from '../alerts/index.ts';
import { MEMBERSHIP_REASONS } from '../groups/index.ts';
import { NoteActions, NoteComposer } from './device-notes.tsx';
import type { DeviceTab } from './device-tabs.ts';
import styles from './history-tab.module.css';
import { useDeviceAddress } from './tab-parts.tsx';
import { byDay, changeText, softwareText, timelineRows, type TimelineRow } from './timeline-rows.ts';

type Kind = TimelineEntry['kind'];

const KINDS: Record<Kind, { label: string; icon: Icon; tab?: DeviceTab }> = {
  note: { label: 'Notes', icon: IconNote },
  alert: { label: 'Alerts', icon: IconAlertTriangle },
  presence: { label: 'Connection', icon: IconPlugConnected },
  command: { label: 'Commands', icon: IconTool, tab: 'commands' },
  backup: { label: 'Backup', icon: IconArchive, tab: 'backup' },
  upgrade: { label: 'Upgrades', icon: IconDownload, tab: 'upgrades' },
  software: { label: 'Software', icon: IconApps, tab: 'software' },
  terminal: { label: 'Terminals', icon: IconTerminal2, tab: 'terminal' },
  group: { label: 'Groups', icon: IconFolders },
  change: { label: 'Changes', icon: IconPencil },
};
const ALL_KINDS = Object.keys(KINDS) as Kind[];
const PAGE = '50';
const READ_AGAIN_MS = 20_000;

/** What has happened to the device, newest first, and notes about it. */
export function HistoryTab({ device }: { device: Device }) {
  const { search, narrow } = useDeviceAddress();
  const chosen = ALL_KINDS.filter((kind) => search.kinds?.includes(kind));
  const query = useInfiniteQuery({
    queryKey: ['GET /devices/{id}/timeline', device.id, chosen],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam, signal }) =>
      call(
        'GET /devices/{id}/timeline',
        {
          params: { id: device.id },
          query: { before: pageParam, limit: PAGE, kinds: chosen.join(',') || undefined },
        },
        { signal },
      ),
    getNextPageParam: ({ next }) => next ?? undefined,
    // Later pages are read again as well, so only the first one is kept up to date.
    refetchInterval: ({ state: { data } }) => ((data?.pages.length ?? 0) > 1 ? false : READ_AGAIN_MS),
  });
  return (
    <Stack gap="md">
      <NoteComposer device={device} />
      <ChipChoice
        label="What is shown"
        values={ALL_KINDS.filter((kind) => query.data?.pages[0]?.hidden.includes(kind) !== true)}
        nameOf={(kind) => KINDS[kind].label}
        chosen={chosen}
        onChange={(kinds) => narrow({ kinds: kinds.length === 0 ? undefined : kinds })}
      />
      {chosen.includes('change') && (
        <TextLink size="sm" to="/audit" search={{ q: device.id }}>
          Everything that the audit trail has about this device
        </TextLink>
      )}
      <Loaded query={query} what="Reading the history">
        {({ pages }) => {
          // An entry that arrives between two pages moves another one to the next page.
          const entries = pages.flatMap(({ data }) => data);
          const rows = timelineRows([
            ...new Map(entries.map((entry) => [`${entry.kind} ${entry.id}`, entry])).values(),
          ]);
          if (rows.length === 0) {
            return (
              <Empty title="Nothing has happened yet">
                {chosen.length === 0
                  ? 'Connections, alerts, commands and changes of this device appear here.'
                  : 'Nothing of the chosen kinds is kept.'}
              </Empty>
            );
          }
          return <Days rows={rows} device={device} />;
        }}
      </Loaded>
      {query.hasNextPage && (
        <Group justify="center">
          <Button
            variant="default"
            loading={query.isFetchingNextPage}
            onClick={() => void query.fetchNextPage()}
          >
            Show earlier
          </Button>
        </Group>
      )}
    </Stack>
  );
}

const DAY = new Intl.DateTimeFormat(undefined, { dateStyle: 'full' });
const TIME = new Intl.DateTimeFormat(undefined, { timeStyle: 'short' });

function Days({ rows, device }: { rows: readonly TimelineRow[]; device: Device }) {
  return (
    <div>
      {byDay(rows, (at) => DAY.format(at)).map(({ day, rows: ofDay }) => (
        <section key={day} aria-label={day}>
          <Title order={3} size="h6" mt="sm" mb={4}>
            {day}
          </Title>
          <ol className={styles['rows']}>
            {ofDay.map((row) => (
              <Row key={row.key} row={row} device={device} />
            ))}
          </ol>
        </section>
      ))}
    </div>
  );
}

function Row({ row, device }: { row: TimelineRow; device: Device }) {
  const {
    icon: Shown,
    text,
    badge,
    detail,
    actions,
  } = row.kind === 'flapping' ? flapping(row) : shown(row.entry, device);
  return (
    <li className={styles['row']}>
      <time dateTime={row.at} title={formatTime(new Date(row.at))}>
        {TIME.format(new Date(row.at))}
      </time>
      <Shown size={16} aria-hidden />
      <div>
        <Text size="sm" component="div" className={styles['text'] ?? ''}>
          {text}
        </Text>
        {detail !== undefined && (
          <Text size="xs" component="div" className={styles['text'] ?? ''}>
            {detail}
          </Text>
        )}
      </div>
      <Group gap={4} wrap="nowrap">
        {badge}
        {actions}
      </Group>
    </li>
  );
}

interface Shown {
  icon: Icon;
  text: ReactNode;
  badge?: ReactNode;
  detail?: ReactNode;
  actions?: ReactNode;
}

const flapping = ({ losses, since, state }: Extract<TimelineRow, { kind: 'flapping' }>): Shown => ({
  icon: state === 'connected' ? IconPlugConnected : IconPlugConnectedX,
  text: `Lost its connection ${formatCounted(losses, 'time')} since ${formatTime(new Date(since))}`,
  badge: <StateBadge tone={state === 'connected' ? 'good' : 'neutral'} label={formatWord(state)} />,
});

const TONES: Readonly<Record<string, Tone>> = {
  succeeded: 'good',
  completed: 'good',
  active: 'warning',
  acknowledged: 'info',
  resolved: 'good',
  partial: 'warning',
  rolled_back: 'warning',
  failed: 'bad',
  timed_out: 'bad',
  cancelled: 'neutral',
  expired: 'neutral',
};
const state = (word: string) => <StateBadge tone={TONES[word] ?? 'busy'} label={formatWord(word)} />;

const TASKS: Readonly<Record<string, string>> = {
  backup: 'Backup',
  restore: 'Restore',
  verification: 'Verification of a backup',
  vault_sync: 'Copy to the vault',
};

/** "took 3 min · by Ana" */
const aside = ({ by, at, endedAt }: TimelineEntry, ...more: (string | null | undefined)[]) => {
  const span = formatSpan(at, endedAt);
  const parts = [
    ...more,
    span === undefined ? undefined : `took ${span}`,
    by === null ? undefined : `by ${by.name}`,
  ].filter((part) => part !== undefined && part !== null && part !== '');
  return parts.length === 0 ? undefined : parts.join(' · ');
};

function shown(entry: TimelineEntry, device: Device): Shown {
  const { icon, tab } = KINDS[entry.kind];
  const params = { deviceId: device.id };
  const inTab = (text: string) => (
    <TextLink inherit to="/devices/$deviceId" params={params} search={{ tab }}>
      {text}
    </TextLink>
  );
  switch (entry.kind) {
    case 'presence':
      return entry.state === 'connected'
        ? { icon, text: 'Connected' }
        : { icon: IconPlugConnectedX, text: `Disconnected: it ${reasonText(entry)}` };
    case 'alert':
      return {
        icon,
        text: (
          <TextLink inherit to="/alerts" search={{ alert: entry.id }}>
            {entry.title}
          </TextLink>
        ),
        badge: (
          <>
            <SeverityBadge severity={entry.severity} />
            {state(entry.status)}
          </>
        ),
        detail:
          entry.endedAt === null
            ? undefined
            : aside({ ...entry, endedAt: null }, `resolved after ${formatSpan(entry.at, entry.endedAt)}`),
      };
    case 'command':
      return {
        icon,
        text: (
          <TextLink
            inherit
            to="/devices/$deviceId"
            params={params}
            search={{ tab: 'commands', command: entry.id }}
          >
            {entry.scriptName === null ? formatWord(entry.type) : `Script “${entry.scriptName}”`}
          </TextLink>
        ),
        badge: state(entry.status),
        detail: aside(entry),
        actions: entry.runId !== null && (
          <TextLink size="sm" to="/scripts/runs/$runId" params={{ runId: entry.runId }}>
            All devices of this run
          </TextLink>
        ),
      };
    case 'backup':
      return {
        icon,
        text: inTab(TASKS[entry.task] ?? formatWord(entry.task)),
        badge: state(entry.status),
        detail: aside(entry, entry.error),
      };
    case 'upgrade':
      return {
        icon,
        text: inTab(
          `${formatWord(entry.component)} ${entry.fromVersion === null ? '' : `${entry.fromVersion} `}→ ${entry.toVersion}`,
        ),
        badge: state(entry.state),
        detail: aside(entry, entry.error),
      };
    case 'software':
      return {
        icon,
        text: (
          <TextLink
            inherit
            to="/devices/$deviceId"
            params={params}
            search={{ tab: 'software', show: 'changes' }}
          >
            {softwareText(entry)}
          </TextLink>
        ),
      };
    case 'terminal':
      return { icon, text: inTab('Terminal'), detail: aside(entry) };
    case 'group':
      return {
        icon,
        text: (
          <>
            {entry.change === 'joined' ? 'Joined' : 'Left'} the group{' '}
            <TextLink inherit to="/groups/$groupId" params={{ groupId: entry.groupId }}>
              {entry.groupName}
            </TextLink>
          </>
        ),
        detail: aside(entry, MEMBERSHIP_REASONS[entry.reason]),
      };
    case 'change':
      return {
        icon,
        text: changeText(entry, (field) => formatField(field).toLowerCase()),
        detail: aside(entry),
      };
    case 'note':
      return {
        icon,
        text: entry.text,
        detail: aside(entry, entry.isPinned ? 'pinned' : null, entry.editedAt === null ? null : 'edited'),
        actions: <NoteActions deviceId={device.id} note={{ ...entry, by: entry.by?.id ?? null }} />,
      };
    default:
      return entry satisfies never;
  }
}
