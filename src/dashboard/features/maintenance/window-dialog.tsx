import { Stack, Table, Text } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { call, type MaintenanceWindow, useApiChange } from '../../api/index.ts';
import { choicesOf, useOrganizations } from '../../directory.ts';
import { useScope } from '../../routing.ts';
import { useMe } from '../../session.ts';
import {
  asError,
  FormDialog,
  formatDuration,
  TIME_ZONES,
  useForm,
  useNow,
  TimeOfDay,
  type TimeField,
} from '../../ui/index.ts';
import { NO_TARGET, targetFormOf, targetOf, useTargetFields } from '../device-targets/index.ts';
import {
  DAYS,
  DAYS_OF_MONTH,
  NTHS,
  OWN_ZONE,
  REPEATS,
  scheduleOf,
  type Times,
  timesOf,
} from './window-form.ts';

export const WINDOW_READS = ['GET /maintenance-windows', 'GET /maintenance-windows/occurrences'] as const;

const ALL = 'all';
const MINUTE_MS = 60_000;

/** Plans a window, or changes the one that is given. */
export function WindowDialog({ window, onClose }: { window?: MaintenanceWindow; onClose: () => void }) {
  const me = useMe();
  const { orgId: scopeOrgId } = useScope();
  const now = useNow();
  const organizations = useOrganizations();
  const form = useForm(() => ({
    name: window?.name ?? '',
    owner: window === undefined ? (scopeOrgId ?? me.orgId ?? ALL) : (window.orgId ?? ALL),
    ...targetFormOf(window?.target),
    ...timesOf(window, new Date(now)),
    alerts: window?.suppress.alerts ?? true,
    upgrades: window?.suppress.upgrades ?? true,
  }));
  const { name, owner, alerts, upgrades, ...values } = form.values;
  const orgId = owner === ALL ? undefined : owner;
  const targets = useTargetFields(orgId, values);
  const create = useApiChange('POST /maintenance-windows', { refreshes: WINDOW_READS });
  const change = useApiChange('PATCH /maintenance-windows/{id}', { refreshes: WINDOW_READS });
  const submit = async () => {
    const body = {
      name,
      target: targetOf(values),
      ...scheduleOf(values),
      suppress: { alerts, upgrades },
    };
    if (window === undefined) {
      await create.mutateAsync({ body: { ...body, ...(orgId === undefined ? {} : { orgId }) } });
    } else {
      await change.mutateAsync({ params: { id: window.id }, body });
    }
  };
  const { repeat } = values;
  return (
    <FormDialog
      size="lg"
      title={window === undefined ? 'Plan maintenance' : `Change ${window.name}`}
      onClose={onClose}
      submit={submit}
      submitLabel={window === undefined ? 'Plan' : 'Save'}
      form={form}
      fields={[
        {
          name: 'name',
          label: 'Name',
          description: 'The devices show it while the window is in progress.',
          required: true,
          maxLength: 100,
        },
        window === undefined &&
          me.scope !== 'organization' && {
            name: 'owner',
            fault: 'orgId',
            kind: 'choice',
            label: 'Organization',
            isSearchable: true,
            options: [
              ...(me.scope === 'partner' ? [{ value: ALL, label: 'All organizations' }] : []),
              ...choicesOf(organizations),
            ],
            resets: NO_TARGET,
          },
        ...targets,
        [
          { name: 'day', fault: 'start', kind: 'day', label: 'First day', required: true },
          { name: 'time', control: (field: TimeField) => <TimeOfDay label="Begins at" {...field} /> },
        ],
        [
          {
            name: 'durationMinutes',
            kind: 'number',
            label: 'Length in minutes',
            description:
              values.durationMinutes === undefined
                ? 'At most 7 days.'
                : `${formatDuration(values.durationMinutes * MINUTE_MS)}, at most 7 days.`,
            required: true,
            min: 1,
            max: 10_080,
            empty: undefined,
          },
          {
            name: 'timezone',
            kind: 'choice',
            label: 'Time zone',
            description: 'Of the clocks at which it begins.',
            isSearchable: true,
            options: zonesWith(values.timezone),
          },
        ],
        { name: 'repeat', kind: 'choice', label: 'Happens', options: REPEATS },
        repeat === 'weekly' && {
          name: 'days',
          fault: 'repeat.days',
          kind: 'choices',
          label: 'On',
          required: true,
          options: DAYS,
        },
        repeat === 'monthlyDay' && {
          name: 'dayOfMonth',
          fault: 'repeat.dayOfMonth',
          kind: 'choice',
          label: 'On',
          options: DAYS_OF_MONTH,
        },
        repeat === 'monthlyWeekday' && [
          { name: 'nth', kind: 'choice', label: 'On the', options: NTHS },
          { name: 'weekday', kind: 'choice', label: 'Weekday', options: DAYS },
        ],
        repeat !== 'once' && {
          name: 'until',
          fault: 'repeat.until',
          kind: 'day',
          label: 'Last day',
          description: 'Without one, it goes on.',
          empty: undefined,
        },
        {
          name: 'alerts',
          kind: 'switch',
          label: 'Raise no alerts by rules',
          description:
            'What Muster reports by itself, such as a failed backup, is raised. After the end, devices have 10 minutes to come back.',
        },
        { name: 'upgrades', kind: 'switch', label: 'Upgrade no agents' },
        { note: 'preview', text: <Preview times={values} /> },
      ]}
    />
  );
}

/** A zone that this browser does not know stays the one that was chosen. */
const zonesWith = (zone: string): string[] =>
  [...new Set([...TIME_ZONES, OWN_ZONE, zone])].filter((one) => one !== '');

const WAIT_MS = 400;
const isoDay = /^\d{4}-\d\d-\d\dT\d\d:\d\d$/;

/** The next occurrences, on the clocks of the window and on those of the reader. */
function Preview({ times }: { times: Times }) {
  const [asked] = useDebouncedValue(times, WAIT_MS);
  const body = scheduleOf(asked);
  const isWhole = isoDay.test(body.start) && body.durationMinutes > 0;
  const preview = useQuery({
    queryKey: ['POST /maintenance-windows/preview', body],
    queryFn: ({ signal }) => call('POST /maintenance-windows/preview', { body }, { signal }),
    enabled: isWhole,
    placeholderData: keepPreviousData,
    retry: false,
  });
  const found = preview.data?.data ?? [];
  const isElsewhere = body.timezone !== OWN_ZONE;
  return (
    <Stack gap={4} aria-live="polite">
      <Text size="sm" fw={500}>
        The next occurrences
      </Text>
      {preview.error !== null ? (
        <Text size="sm" c="dimmed">
          {asError(preview.error).message}
        </Text>
      ) : found.length === 0 ? (
        <Text size="sm" c="dimmed">
          {isWhole && preview.isSuccess
            ? 'None lies ahead.'
            : 'Fill in when it begins and how long it lasts.'}
        </Text>
      ) : (
        <Table aria-label="The next occurrences" verticalSpacing={2}>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>{body.timezone}</Table.Th>
              {isElsewhere && <Table.Th>On your clocks ({OWN_ZONE})</Table.Th>}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {found.map(({ startsAt, endsAt }) => (
              <Table.Tr key={startsAt}>
                <Table.Td>{spanText(startsAt, endsAt, body.timezone)}</Table.Td>
                {isElsewhere && <Table.Td>{spanText(startsAt, endsAt, OWN_ZONE)}</Table.Td>}
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      )}
    </Stack>
  );
}

/** "Tue, Dec 8, 2026, 10:00 PM – 12:00 AM", with the day of the end if it is another one. */
function spanText(startsAt: string, endsAt: string, timeZone: string): string {
  const format = new Intl.DateTimeFormat(undefined, {
    timeZone,
    weekday: 'short',
    year: 'numeric',
    month: 'short',
    day: 'numeric',
    hour: 'numeric',
    minute: '2-digit',
  });
  return format.formatRange(new Date(startsAt), new Date(endsAt));
}
