import { Badge, Tooltip, type MantineColor } from '@mantine/core';
import {
  IconAlertTriangle,
  IconArchive,
  IconCircleCheck,
  IconCircleX,
  IconClock,
  IconDownload,
  IconInfoCircle,
  IconLoader,
  IconLock,
  IconPlugConnected,
  IconPlugConnectedX,
  IconTool,
  type Icon,
} from '@tabler/icons-react';
import {
  scriptFailure,
  type DeviceStatus,
  type PlannedMaintenance,
  type Presence,
} from '../../protocol/index.ts';
import { formatTime, formatUntil, formatWord } from './format.ts';
import styles from './status.module.css';

/** States are shown by icon and word; the colour only helps. */

export type Tone = 'good' | 'bad' | 'warning' | 'busy' | 'neutral' | 'info';

/** How each tone looks, in badges and in notes. */
export const TONES: Record<Tone, { color: MantineColor; icon: Icon }> = {
  good: { color: 'teal', icon: IconCircleCheck },
  bad: { color: 'red', icon: IconCircleX },
  warning: { color: 'orange', icon: IconAlertTriangle },
  busy: { color: 'blue', icon: IconLoader },
  neutral: { color: 'gray', icon: IconClock },
  info: { color: 'blue', icon: IconInfoCircle },
};

export function StateBadge({
  tone,
  label,
  icon,
  title,
}: {
  tone: Tone;
  label: string;
  icon?: Icon;
  title?: string | undefined;
}) {
  const { color, icon: usual } = TONES[tone];
  const Shown = icon ?? usual;
  const badge = (
    <Badge
      variant="light"
      color={color}
      radius="sm"
      tt="none"
      fw={500}
      leftSection={<Shown size={13} aria-hidden />}
      // A badge that is cut off says nothing; the text beside it can break.
      style={{ overflow: 'visible', flexShrink: 0, minWidth: 'max-content' }}
    >
      {label}
    </Badge>
  );
  return title === undefined ? badge : <Tooltip label={title}>{badge}</Tooltip>;
}

const DEVICE: Record<DeviceStatus, { tone: Tone; icon: Icon }> = {
  online: { tone: 'good', icon: IconPlugConnected },
  offline: { tone: 'bad', icon: IconPlugConnectedX },
  maintenance: { tone: 'warning', icon: IconTool },
  updating: { tone: 'busy', icon: IconDownload },
  pending: { tone: 'neutral', icon: IconClock },
  quarantined: { tone: 'warning', icon: IconLock },
  decommissioned: { tone: 'neutral', icon: IconArchive },
};

const REASONS: Record<Presence['reason'], string> = {
  connected: 'connected',
  heartbeat_missed: 'stopped answering (as without power or network)',
  socket_closed: 'closed its connection (as when it shuts down)',
  node_lost: 'was connected to a server that went away',
  updating: 'is installing an update',
  never_seen: 'was never seen',
};

/** Why a device is in its state: "closed its connection (as when it shuts down)". */
export const reasonText = ({ reason }: Pick<Presence, 'reason'>): string => REASONS[reason];

/** Why a device is in its state, and since when: "stopped answering (as without power or network), since 12:04". */
export const presenceText = ({ reason, since }: Presence): string =>
  `${REASONS[reason]}, since ${formatTime(new Date(since))}`;

export function DeviceStatusBadge({ status, presence }: { status: DeviceStatus; presence?: Presence }) {
  return (
    <StateBadge
      {...DEVICE[status]}
      label={formatWord(status)}
      title={presence === undefined ? undefined : formatWord(presenceText(presence))}
    />
  );
}

/** The same for tables of thousands of rows: a browser draws it several times as fast. */
/** The maintenance window that a device is in: "Maintenance until 23:00". */
export function MaintenanceBadge({ maintenance }: { maintenance: PlannedMaintenance }) {
  return (
    <StateBadge
      tone="warning"
      icon={IconTool}
      label={maintenanceText(maintenance)}
      title={`${maintenance.name}, until ${formatTime(new Date(maintenance.until))}`}
    />
  );
}

export const maintenanceText = ({ until }: PlannedMaintenance): string =>
  `Maintenance until ${formatUntil(new Date(until), new Date())}`;

/** @param maintenance  the window that it is in, which is shown beside the state and changes nothing about it */
export function DeviceStatusText({
  status,
  presence,
  maintenance = null,
}: {
  status: DeviceStatus;
  presence: Presence;
  maintenance?: PlannedMaintenance | null;
}) {
  const { tone, icon: Shown } = DEVICE[status];
  const { color } = TONES[tone];
  return (
    <span
      className={styles['state']}
      // The text of a badge is nearly white in the dark, where the badge itself has the colour.
      style={{
        color: `light-dark(var(--mantine-color-${color}-light-color), var(--mantine-color-${color}-4))`,
      }}
      title={formatWord(presenceText(presence))}
    >
      <Shown size={14} aria-hidden />
      {formatWord(status)}
      {maintenance !== null && (
        <IconTool
          size={14}
          role="img"
          aria-label={`${maintenanceText(maintenance)}: ${maintenance.name}`}
          title={`${maintenanceText(maintenance)}: ${maintenance.name}`}
        />
      )}
    </span>
  );
}

const JOB_TONES: Record<string, Tone> = {
  succeeded: 'good',
  completed: 'good',
  passed: 'good',
  partial: 'warning',
  failed: 'bad',
  timed_out: 'bad',
  expired: 'bad',
  cancelled: 'neutral',
  aborted: 'warning',
  queued: 'neutral',
  pending: 'neutral',
};

/** A state as its badge shows it. */
export interface StateLook {
  tone: Tone;
  label: string;
  title?: string | undefined;
}

/** How the state of a command, a backup job or any other work looks. Of a script that has failed, its exit code. */
export function jobState({
  state,
  exitCode,
}: {
  state: string;
  exitCode?: number | null | undefined;
}): StateLook {
  const failure = scriptFailure({ state, exitCode });
  if (failure !== undefined) return { tone: 'bad', label: failure };
  return { tone: JOB_TONES[state] ?? 'busy', label: formatWord(state) };
}

export const JobStateBadge = (ending: Parameters<typeof jobState>[0]) => <StateBadge {...jobState(ending)} />;
