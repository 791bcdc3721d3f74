import { Badge, Button, Group, List, Select, SimpleGrid, Stack, Text, TextInput, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState, type SyntheticEvent } from 'react';
import { call, type Input, type NotificationSimulation } from '../../api/index.ts';
import { choicesOf, useFirstOrganization, useOrganizations, useSites } from '../../directory.ts';
import { Failure, formatTime, formatWord, Loading, Notice, Panel, StateBadge } from '../../ui/index.ts';
import { DeviceSelect } from '../backup/index.ts';
import { ALERT_KINDS, SEVERITIES, wordsOfKind } from '../alert-words/index.ts';
import { DAY_NAMES, WEEK } from './policy-text.ts';
import { nextMoment, tellingsOf, type Telling } from './simulation.ts';

type Simulation = Input<'POST /notification-policies/simulate'>['body'];

const NOW = 'now';
const DAYS = [
  { value: NOW, label: 'Now' },
  ...WEEK.map((day) => ({ value: String(day), label: DAY_NAMES[day] ?? '' })),
];
const FIRST_TIME = '03:00';
/** So many tellings are shown at first. */
const SHOWN = 6;

/** Shows who would be told about an alert, when, and why not. */
export function Simulator({ version }: { version: string }) {
  const firstOrganization = useFirstOrganization();
  const organizations = useOrganizations();
  const [values, setValues] = useState({
    orgId: undefined as string | undefined,
    severity: 'critical',
    kind: 'device_offline',
    siteId: undefined as string | undefined,
    deviceId: undefined as string | undefined,
    day: NOW,
    time: FIRST_TIME,
  });
  const set = (change: Partial<typeof values>) => setValues((before) => ({ ...before, ...change }));
  const orgId = values.orgId ?? firstOrganization ?? organizations[0]?.id;
  const [asked, setAsked] = useState<{ body: Simulation; begin: Date }>();
  const simulation = useQuery({
    queryKey: ['notifications: simulation', asked, version],
    enabled: asked !== undefined,
    queryFn: async ({ signal }) =>
      asked === undefined
        ? null
        : call('POST /notification-policies/simulate', { body: asked.body }, { signal }),
  });
  const sites = useSites(orgId ?? '');
  const ask = (event: SyntheticEvent) => {
    event.preventDefault();
    if (orgId === undefined) return;
    const { severity, kind, siteId, deviceId, day, time } = values;
    const begin = day === NOW ? new Date() : nextMoment(Number(day), time, new Date());
    setAsked({
      begin,
      body: {
        orgId,
        severity: SEVERITIES.find((each) => each === severity) ?? 'critical',
        kind,
        ...(siteId === undefined ? {} : { siteId }),
        ...(deviceId === undefined ? {} : { deviceId }),
        at: begin.toISOString(),
      },
    });
  };
  return (
    <Panel title="What if …" label="Simulator">
      <form onSubmit={ask} aria-label="An alert that somebody thinks of">
        <Stack gap="xs">
          <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="xs">
            <Select
              label="Severity"
              allowDeselect={false}
              data={SEVERITIES.map((value) => ({ value, label: formatWord(value) }))}
              value={values.severity}
              onChange={(severity) => severity !== null && set({ severity })}
            />
            <Select
              label="Kind"
              searchable
              allowDeselect={false}
              data={ALERT_KINDS.map((value) => ({ value, label: wordsOfKind(value) }))}
              value={values.kind}
              onChange={(kind) => kind !== null && set({ kind })}
            />
            {organizations.length > 1 && (
              <Select
                label="Organization"
                searchable
                allowDeselect={false}
                data={choicesOf(organizations)}
                value={orgId ?? null}
                onChange={(id) => set({ orgId: id ?? undefined, siteId: undefined, deviceId: undefined })}
              />
            )}
            <Select
              label="Site"
              placeholder="None"
              searchable
              clearable
              clearButtonProps={{ 'aria-label': 'No site' }}
              data={choicesOf(sites)}
              value={values.siteId ?? null}
              onChange={(siteId) => set({ siteId: siteId ?? undefined, deviceId: undefined })}
            />
            <DeviceSelect
              label="Device"
              orgId={orgId}
              value={values.deviceId}
              onChange={(deviceId) => set({ deviceId, siteId: undefined })}
            />
            <Select
              label="Raised"
              allowDeselect={false}
              data={DAYS}
              value={values.day}
              onChange={(day) => day !== null && set({ day })}
            />
            {values.day !== NOW && (
              <TextInput
                type="time"
                label="At"
                description="By the clock of this computer."
                required
                value={values.time}
                onChange={(event) => set({ time: event.currentTarget.value })}
              />
            )}
          </SimpleGrid>
          <Group>
            <Button type="submit" variant="default" loading={simulation.isFetching}>
              Show who is told
            </Button>
          </Group>
        </Stack>
      </form>
      <div role="status">
        {asked !== undefined &&
          (simulation.data != null ? (
            <Answer answer={simulation.data} begin={asked.begin} />
          ) : simulation.error !== null ? (
            <Failure error={simulation.error} />
          ) : (
            <Loading what="Asking the policies" />
          ))}
      </div>
    </Panel>
  );
}

function Answer({ answer, begin }: { answer: NotificationSimulation; begin: Date }) {
  const { policyId, policyName, considered, timeline, isCut } = answer;
  const [isWhole, setWhole] = useState(false);
  const passed = considered.filter(({ fault }) => fault !== null);
  const tellings = tellingsOf(timeline, begin);
  const shown = isWhole ? tellings : tellings.slice(0, SHOWN);
  return (
    <Stack gap="sm">
      {policyId === null ? (
        <Notice tone="warning" title="Nobody is told">
          No policy takes such an alert, raised {formatTime(begin)}.
        </Notice>
      ) : (
        <Notice tone="good" title={`“${policyName}” takes it`}>
          Raised {formatTime(begin)}.
        </Notice>
      )}
      {passed.length > 0 && (
        <>
          <Title order={3} size="h6">
            {policyId === null ? 'Why no policy takes it' : 'Why those before it do not'}
          </Title>
          <List size="sm" spacing={2}>
            {passed.map((policy) => (
              <List.Item key={policy.policyId}>
                {policy.policyName}: {policy.fault}
              </List.Item>
            ))}
          </List>
        </>
      )}
      {shown.length > 0 && (
        <>
          <Title order={3} size="h6">
            If nobody acknowledges or resolves it
          </Title>
          <Stack
            component="ol"
            gap="xs"
            m={0}
            p={0}
            style={{ listStyle: 'none' }}
            aria-label="Who is told when"
          >
            {shown.map((telling) => (
              <TellingItem key={telling.at} telling={telling} />
            ))}
          </Stack>
        </>
      )}
      {tellings.length > SHOWN && (
        <Group>
          <Button variant="subtle" size="compact-sm" onClick={() => setWhole(!isWhole)}>
            {isWhole
              ? 'Show fewer'
              : `Show all ${tellings.length}${isCut ? ' of the first days' : ' of 7 days'}`}
          </Button>
        </Group>
      )}
    </Stack>
  );
}

function TellingItem({ telling: { at, after, reason, told } }: { telling: Telling }) {
  return (
    <Stack component="li" gap={2}>
      <Group gap={6}>
        <Text size="sm" fw={600}>
          {after}
        </Text>
        <Text size="xs" c="dimmed">
          {formatTime(new Date(at))}
        </Text>
        {reason !== 'raised' && (
          <Badge size="sm" variant="default" tt="none" fw={500}>
            {reason === 'escalated' ? 'Escalated' : 'Again'}
          </Badge>
        )}
      </Group>
      {told.map(({ channelId, userId, name, suppressed }) => (
        <Stack key={channelId ?? userId} gap={0} pl="sm">
          <Group gap={6}>
            <Text size="sm">
              {name ?? 'A recipient that is gone'}
              {userId !== null && ' by mail'}
            </Text>
            {suppressed !== null && <StateBadge tone="warning" label="Not told" />}
          </Group>
          {suppressed !== null && (
            <Text size="xs" c="dimmed">
              {suppressed}
            </Text>
          )}
        </Stack>
      ))}
    </Stack>
  );
}
