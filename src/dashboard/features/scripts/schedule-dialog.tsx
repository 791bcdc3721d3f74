import { Code, Stack, Table, Text } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { call, type ScriptSchedule, useApiChange, useList } from '../../api/index.ts';
import { choicesOf, useOrganizations } from '../../directory.ts';
import { useScope } from '../../routing.ts';
import { useMe } from '../../session.ts';
import {
  asError,
  formatDuration,
  FormDialog,
  TIME_ZONES,
  useForm,
  TimeOfDay,
  type TimeField,
} from '../../ui/index.ts';
import { NO_TARGET, targetFormOf, targetOf, useTargetFields } from '../device-targets/index.ts';
import { cronOf, DAYS, DAYS_OF_MONTH, FREQUENCIES, MINUTES, timesFormOf } from './schedule-form.ts';
import { ConfirmScript } from './confirm-script.tsx';
import { heldBy, secretsToSend } from './schedule-secrets.ts';
import { givenBy, unfit, type Variable, Variables, variablesOf } from './variables.tsx';

export const SCHEDULE_READS = ['GET /script-schedules', 'GET /script-schedules/{id}'] as const;

const ALL = 'all';
const MINUTE_MS = 60_000;
const OWN_ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;
/** Scripts that are offered. */
const SCRIPTS_SHOWN = '100';

/** Makes a schedule, or changes the one that is given. */
export function ScheduleDialog({
  schedule,
  scriptId,
  onClose,
}: {
  schedule?: ScriptSchedule;
  /** The script that is chosen at first. */
  scriptId?: string | undefined;
  onClose: () => void;
}) {
  const me = useMe();
  const { orgId: scopeOrgId } = useScope();
  const organizations = useOrganizations();
  const form = useForm(() => ({
    name: schedule?.name ?? '',
    owner: schedule === undefined ? (scopeOrgId ?? me.orgId ?? ALL) : (schedule.orgId ?? ALL),
    scriptId: schedule?.scriptId ?? scriptId ?? '',
    ...targetFormOf(schedule?.target),
    ...timesFormOf(schedule?.cron),
    timezone: schedule?.timezone ?? OWN_ZONE,
    catchUpMinutes: schedule?.catchUpMinutes ?? 1440,
    enabled: schedule?.enabled ?? true,
  }));
  /** What was typed for the parameters of a script. Another script has others. */
  const [typed, setTyped] = useState<{ scriptId: string; variables: readonly Variable[] }>();
  const [isConfirmed, setIsConfirmed] = useState(false);
  const { name, owner, timezone, catchUpMinutes, enabled, frequency, ...values } = form.values;
  const orgId = owner === ALL ? undefined : owner;
  const scripts = useList('GET /scripts', { query: { orgId, limit: SCRIPTS_SHOWN } });
  const offered = (scripts.data?.data ?? []).filter((one) => one.orgId === null || one.orgId === orgId);
  const { scriptId: chosenId } = values;
  const script = offered.find(({ id }) => id === chosenId);
  const isSameScript = chosenId === schedule?.scriptId;
  const parameters = script?.parameters ?? [];
  // Another script keeps the secrets that it declares as well.
  const held = heldBy(schedule, me.user.id).filter(
    (secret) => isSameScript || parameters.some(({ name: declared }) => declared === secret.name),
  );
  const variables =
    typed?.scriptId === chosenId
      ? typed.variables
      : variablesOf(parameters, isSameScript ? (schedule?.parameters ?? {}) : {}, held);
  const isChanged =
    isSameScript &&
    schedule?.paused?.reason === 'script_changed' &&
    variables.some((one) => one.held !== undefined);
  const targets = useTargetFields(orgId, values);
  const cron = cronOf({ ...values, frequency });
  const create = useApiChange('POST /script-schedules', { refreshes: SCHEDULE_READS });
  const change = useApiChange('PATCH /script-schedules/{id}', { refreshes: SCHEDULE_READS });
  const submit = async () => {
    const why = unfit(variables);
    if (why !== undefined) throw new Error(why);
    const body = {
      name,
      scriptId: values.scriptId,
      target: targetOf(values),
      cron,
      timezone,
      catchUpMinutes,
      enabled,
      parameters: givenBy(variables).parameters ?? {},
    };
    if (schedule === undefined) {
      const { secrets } = givenBy(variables);
      await create.mutateAsync({
        body: {
          ...body,
          ...(secrets === undefined ? {} : { secrets }),
          ...(orgId === undefined ? {} : { orgId }),
        },
      });
    } else {
      // It is the script that was read here which gets them.
      const isGiven =
        variables.some(({ isSecret }) => isSecret) &&
        (!isSameScript ||
          isConfirmed ||
          variables.every((one) => one.held === undefined || one.value !== ''));
      await change.mutateAsync({
        params: { id: schedule.id },
        body: {
          ...body,
          ...secretsToSend(schedule, variables),
          ...(script !== undefined && isGiven ? { scriptFingerprint: script.fingerprint } : {}),
        },
      });
    }
  };
  return (
    <FormDialog
      size="lg"
      title={schedule === undefined ? 'New schedule' : `Change ${schedule.name}`}
      onClose={onClose}
      submit={submit}
      submitLabel={schedule === undefined ? 'Create schedule' : 'Save'}
      form={form}
      fields={[
        { name: 'name', label: 'Name', required: true, maxLength: 100 },
        schedule === undefined &&
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
            resets: { ...NO_TARGET, scriptId: '' },
          },
        {
          name: 'scriptId',
          kind: 'choice',
          label: 'Script',
          description: 'It runs as it is saved at the time.',
          required: true,
          isSearchable: true,
          options: choicesOf(offered),
          nothingFound: scripts.isFetching ? 'Reading …' : 'No script that can run there has this name.',
        },
        ...targets,
        { name: 'frequency', kind: 'choice', label: 'Runs', options: FREQUENCIES },
        frequency === 'hourly' && { name: 'minute', kind: 'choice', label: 'At', options: MINUTES },
        frequency === 'weekly' && {
          name: 'days',
          fault: 'cron',
          kind: 'choices',
          label: 'On',
          required: true,
          options: DAYS,
        },
        frequency === 'monthly' && {
          name: 'dayOfMonth',
          kind: 'choice',
          label: 'On',
          options: DAYS_OF_MONTH,
        },
        frequency === 'cron' && {
          name: 'cron',
          label: 'Cron expression',
          description: 'Minute, hour, day of the month, month and weekday; at most every five minutes.',
          required: true,
          maxLength: 100,
        },
        [
          frequency !== 'hourly' &&
            frequency !== 'cron' && {
              name: 'time',
              control: (field: TimeField) => <TimeOfDay label="At" {...field} />,
            },
          {
            name: 'timezone',
            kind: 'choice',
            label: 'Time zone',
            description: 'Of the clocks by which it is due.',
            isSearchable: true,
            options: [...new Set([...TIME_ZONES, OWN_ZONE, timezone])].filter((zone) => zone !== ''),
          },
        ],
        {
          name: 'catchUpMinutes',
          kind: 'number',
          label: 'Catch up within minutes',
          description: `Devices that were away run it once if they return within ${formatDuration(catchUpMinutes * MINUTE_MS)}.`,
          required: true,
          min: 5,
          max: 43_200,
        },
        { name: 'enabled', kind: 'switch', label: 'Enabled' },
        { note: 'preview', text: <Preview cron={cron} timezone={timezone} /> },
      ]}
    >
      {(faults) => (
        <Stack gap={4}>
          <Text size="sm" fw={500}>
            Parameters
          </Text>
          <Variables
            variables={variables}
            onChange={(next) => setTyped({ scriptId: chosenId, variables: next })}
            faults={faults}
          />
          {isChanged && script !== undefined && (
            <ConfirmScript scriptId={script.id} isConfirmed={isConfirmed} onChange={setIsConfirmed} />
          )}
          <Text size="xs">
            It runs by your rights. If you lose them, it is paused. Secrets are stored sealed and shown to
            nobody. Whoever changes the script, the devices or the parameters needs to know them.
          </Text>
        </Stack>
      )}
    </FormDialog>
  );
}

const WAIT_MS = 400;

/** The next times, on the clocks of the schedule and on those of the reader. */
function Preview({ cron, timezone }: { cron: string; timezone: string }) {
  const [body] = useDebouncedValue({ cron, timezone }, WAIT_MS);
  const preview = useQuery({
    queryKey: ['POST /script-schedules/preview', body],
    queryFn: ({ signal }) => call('POST /script-schedules/preview', { body }, { signal }),
    placeholderData: keepPreviousData,
    retry: false,
  });
  const isElsewhere = timezone !== OWN_ZONE;
  return (
    <Stack gap={4} aria-live="polite">
      <Text size="sm" fw={500}>
        The next times <Code>{cron}</Code>
      </Text>
      {preview.error !== null ? (
        <Text size="sm">{asError(preview.error).message}</Text>
      ) : (
        <Table aria-label="The next times" verticalSpacing={2}>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>{timezone}</Table.Th>
              {isElsewhere && <Table.Th>On your clocks ({OWN_ZONE})</Table.Th>}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {(preview.data?.data ?? []).map((at) => (
              <Table.Tr key={at}>
                <Table.Td>{slotText(at, timezone)}</Table.Td>
                {isElsewhere && <Table.Td>{slotText(at, OWN_ZONE)}</Table.Td>}
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      )}
    </Stack>
  );
}

/** "Tue, Dec 8, 2026, 2:30 AM", on the clocks of a time zone. */
export const slotText = (at: string, timeZone: string): string =>
  new Intl.DateTimeFormat(undefined, {
    timeZone,
    weekday: 'short',
    year: 'numeric',
    month: 'short',
    day: 'numeric',
    hour: 'numeric',
    minute: '2-digit',
  }).format(new Date(at));
