import { Group, Stack, Text, Textarea, Timeline, Title } from '@mantine/core';
import {
  IconBell,
  IconBellOff,
  IconCheck,
  IconChecks,
  IconRepeat,
  IconSend,
  IconX,
  type Icon,
} from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { apiQuery, useApiChange, type Alert, type AlertRule, type Notification } from '../../api/index.ts';
import { useNames } from '../../directory.ts';
import { useMe, useRefusal } from '../../session.ts';
import {
  DetailsDrawer,
  FactTable,
  Failure,
  formatCounted,
  Loaded,
  PartNote,
  RunAction,
  TextLink,
  When,
} from '../../ui/index.ts';
import { alertKindText } from '../alert-words/index.ts';
import { AlertStatus, DeviceLink, SeverityBadge } from './alert-parts.tsx';
import { alertTimeline, NOTIFICATION_REASONS, toldText, type AlertStep } from './alert-timeline.ts';

const READS = ['GET /alerts', 'GET /alerts/summary', 'GET /alerts/{id}', 'GET /notifications'] as const;
const REFRESH_MS = 15_000;

/** One alert: what it is about, what has happened with it, and who was told. Messages lead to it. */
export function AlertDrawer({ opened, onClose }: { opened: string | undefined; onClose: () => void }) {
  return (
    <DetailsDrawer opened={opened} onClose={onClose} title="Alert">
      {(id) => <Whole key={id} id={id} />}
    </DetailsDrawer>
  );
}

function Whole({ id }: { id: string }) {
  const alert = useQuery({
    ...apiQuery('GET /alerts/{id}', { params: { id } }),
    refetchInterval: REFRESH_MS,
  });
  return (
    <Loaded query={alert} what="Reading the alert">
      {(data) => <Details alert={data} />}
    </Loaded>
  );
}

function Details({ alert }: { alert: Alert }) {
  const { id, orgId, deviceId, title, message, kind, ruleId, severity, status, count, note, resolution } =
    alert;
  const names = useNames();
  const rule = useRule(ruleId);
  const refusal = useRefusal('alerts:write');
  const acknowledge = useApiChange('POST /alerts/{id}/acknowledge', { refreshes: READS });
  const resolve = useApiChange('POST /alerts/{id}/resolve', { refreshes: READS });
  const [text, setText] = useState('');
  const written = text.trim();
  const input = { params: { id }, body: written === '' ? {} : { note: written } };
  const ended = status === 'resolved' ? 'It is resolved already.' : undefined;
  const taken = status === 'acknowledged' ? 'It is acknowledged already.' : undefined;
  return (
    <Stack gap="md">
      <Stack gap={4}>
        <Title order={3} size="h4" style={{ overflowWrap: 'anywhere' }}>
          {title}
        </Title>
        <Group gap="xs">
          <SeverityBadge severity={severity} />
          <AlertStatus alert={alert} />
        </Group>
        <Text size="sm" style={{ overflowWrap: 'anywhere' }}>
          {message}
        </Text>
      </Stack>
      <FactTable
        label="The alert"
        facts={[
          ['Organization', names.organization(orgId)],
          ['Device', deviceId === null ? undefined : <DeviceLink key="device" id={deviceId} />],
          ['Kind', alertKindText(kind)],
          [
            'Rule',
            rule && (
              <TextLink key="rule" inherit underline="always" to="/alerts/rules" search={{ q: rule.name }}>
                {rule.name}
              </TextLink>
            ),
          ],
          ['Raised', <When key="raised" at={alert.raisedAt} />],
          ['Occurred', count > 1 ? formatCounted(count, 'time') : undefined],
          ['Note', note],
          ['Resolved because', resolution],
        ]}
      />
      {refusal === undefined && ended === undefined && (
        <Textarea
          label={note === null ? 'Note' : 'New note'}
          description="It is kept with the alert when you acknowledge or resolve it."
          autosize
          maxRows={6}
          maxLength={2000}
          value={text}
          onChange={(event) => setText(event.currentTarget.value)}
        />
      )}
      <Group gap="xs" align="flex-start">
        <RunAction
          variant="default"
          icon={IconCheck}
          refusal={refusal ?? ended ?? taken}
          run={async () => {
            await acknowledge.mutateAsync(input);
            setText('');
          }}
        >
          Acknowledge
        </RunAction>
        <RunAction
          variant="default"
          icon={IconChecks}
          refusal={refusal ?? ended}
          run={() => resolve.mutateAsync(input)}
        >
          Resolve
        </RunAction>
      </Group>
      <Title order={3} size="h5">
        What has happened
      </Title>
      <History alert={alert} />
    </Stack>
  );
}

/** The rule that decided about an alert. A person of an organization may not read the rules of its provider. */
function useRule(id: string | null): AlertRule | undefined {
  const rule = useQuery({
    ...apiQuery('GET /alert-rules/{id}', { params: { id: id ?? '' } }),
    enabled: id !== null,
    staleTime: Number.POSITIVE_INFINITY,
  });
  return rule.data;
}

const LIMIT = '100';

function History({ alert }: { alert: Alert }) {
  const notifications = useQuery({
    ...apiQuery('GET /notifications', { query: { alertId: alert.id, limit: LIMIT } }),
    refetchInterval: REFRESH_MS,
  });
  if (notifications.error !== null && notifications.data === undefined) {
    return <Failure error={notifications.error} retry={() => void notifications.refetch()} />;
  }
  const { data = [], pagination } = notifications.data ?? {};
  const steps = alertTimeline(alert, data);
  return (
    <>
      <Timeline
        active={steps.length}
        bulletSize={22}
        lineWidth={2}
        aria-label="What has happened"
        role="list"
      >
        {steps.map((step) => {
          const { icon: StepIcon, colour } = lookOf(step);
          return (
            <Timeline.Item
              key={step.kind === 'told' ? step.notification.id : step.kind}
              role="listitem"
              color={colour}
              bullet={<StepIcon size={13} aria-hidden />}
              title={<StepTitle step={step} />}
            >
              <StepText step={step} />
              <Text size="xs" c="dimmed">
                <When at={step.at} />
              </Text>
            </Timeline.Item>
          );
        })}
      </Timeline>
      {notifications.data !== undefined && data.length === 0 && (
        <Text size="sm" c="dimmed">
          Nobody was sent a message about this alert.{' '}
          <TextLink inherit underline="always" to="/notifications">
            Notification policies
          </TextLink>{' '}
          say who is told.
        </Text>
      )}
      <PartNote listed={data.length} total={pagination?.total} which="newest" />
    </>
  );
}

const STATUS_LOOKS: Record<Notification['status'], { icon: Icon; colour: string }> = {
  pending: { icon: IconSend, colour: 'blue' },
  sent: { icon: IconSend, colour: 'teal' },
  failed: { icon: IconX, colour: 'red' },
  suppressed: { icon: IconBellOff, colour: 'gray' },
};

function lookOf(step: AlertStep): { icon: Icon; colour: string } {
  switch (step.kind) {
    case 'told':
      return STATUS_LOOKS[step.notification.status];
    case 'raised':
      return { icon: IconBell, colour: 'orange' };
    case 'last':
      return { icon: IconRepeat, colour: 'orange' };
    case 'acknowledged':
      return { icon: IconCheck, colour: 'blue' };
    case 'resolved':
      return { icon: IconChecks, colour: 'teal' };
    default:
      return step satisfies never;
  }
}

function StepTitle({ step }: { step: AlertStep }) {
  switch (step.kind) {
    case 'raised':
      return 'Raised';
    case 'last':
      return 'Occurred again';
    case 'told':
      return toldText(step.notification);
    case 'acknowledged':
      return (
        <>
          Acknowledged by <Who id={step.by} />
        </>
      );
    case 'resolved':
      return step.by === null ? (
        'Resolved by itself'
      ) : (
        <>
          Resolved by <Who id={step.by} />
        </>
      );
    default:
      return step satisfies never;
  }
}

function StepText({ step }: { step: AlertStep }) {
  const text = 'notification' in step ? noteOf(step.notification) : 'text' in step ? step.text : null;
  if (text === null) return null;
  return (
    <Text size="sm" style={{ overflowWrap: 'anywhere' }}>
      {text}
    </Text>
  );
}

/** By what somebody was told, why, and what came of it. */
function noteOf({ reason, step, channelId, error, attempts }: Notification): string {
  const parts = [
    `${NOTIFICATION_REASONS[reason]}${step === null ? '' : `, step ${step}`}, ${channelId === null ? 'by mail' : 'by a channel'}`,
    ...(attempts > 1 ? [formatCounted(attempts, 'attempt')] : []),
  ];
  return `${parts.join(', ')}.${error === null ? '' : ` ${error}`}`;
}

/** The name of a person, as far as the one who is signed in may know it. */
function Who({ id }: { id: string | null }) {
  const me = useMe();
  const refusal = useRefusal('users:read');
  const isOther = id !== null && id !== me.user.id;
  const user = useQuery({
    ...apiQuery('GET /users/{id}', { params: { id: id ?? '' } }),
    enabled: isOther && refusal === undefined,
    staleTime: Number.POSITIVE_INFINITY,
  });
  if (!isOther) return id === null ? 'somebody whose account is gone' : 'you';
  return user.data?.name ?? 'another person';
}
