import { TagsInput } from '@mantine/core';
import { useApiChange } from '../../api/index.ts';
import type { ReportSchedule } from '../../api/routes.ts';
import { FormDialog, TIME_ZONES, useForm, TimeOfDay, type TimeField } from '../../ui/index.ts';
import { usePeopleOf } from '../notifications/index.ts';
import { OF_PROVIDER, ownerBody, useFirstOwner, useOwnerChoice } from '../owners/index.ts';

export const SCHEDULE_READS = ['GET /reports/schedules'] as const;

const OWN_ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;

interface Values {
  owner: string | undefined;
  name: string;
  dayOfMonth: number | undefined;
  time: string;
  timezone: string;
  userIds: string[];
  addresses: string[];
}

/** Sets up a schedule, or changes the one that is given. */
export function ScheduleDialog({ schedule, onClose }: { schedule?: ReportSchedule; onClose: () => void }) {
  const firstOwner = useFirstOwner();
  const ownerChoice = useOwnerChoice();
  const form = useForm<Values>(() => ({
    owner: undefined,
    name: schedule?.name ?? '',
    dayOfMonth: schedule?.dayOfMonth ?? 1,
    time: schedule?.time ?? '08:00',
    timezone: schedule?.timezone ?? OWN_ZONE,
    userIds: schedule?.userIds ?? [],
    addresses: schedule?.addresses ?? [],
  }));
  const { owner: chosen, dayOfMonth = 0, ...values } = form.values;
  const owner = schedule === undefined ? (chosen ?? firstOwner) : (schedule.orgId ?? OF_PROVIDER);
  const people = useChoicesOfPeople(owner, values.userIds);
  const create = useApiChange('POST /reports/schedules', { refreshes: SCHEDULE_READS });
  const change = useApiChange('PATCH /reports/schedules/{id}', { refreshes: SCHEDULE_READS });
  const body = { ...values, dayOfMonth };
  const submit = () =>
    schedule === undefined
      ? create.mutateAsync({ body: { ...ownerBody(owner), ...body } })
      : change.mutateAsync({ params: { id: schedule.id }, body });
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
        schedule === undefined && ownerChoice && { ...ownerChoice, shown: owner, empty: undefined },
        [
          {
            name: 'dayOfMonth',
            kind: 'number',
            label: 'Day of the month',
            description: '1 to 28. The report is about the month before.',
            required: true,
            min: 1,
            max: 28,
            empty: undefined,
          },
          {
            name: 'time',
            control: (field: TimeField) => (
              <TimeOfDay label="Time" description="On the clocks of the time zone." {...field} />
            ),
          },
        ],
        {
          name: 'timezone',
          kind: 'choice',
          label: 'Time zone',
          isSearchable: true,
          options: [...new Set([...TIME_ZONES, OWN_ZONE, values.timezone])].filter((zone) => zone !== ''),
        },
        people.length > 0 && { name: 'userIds', kind: 'choices', label: 'People', options: people },
        {
          name: 'addresses',
          control: ({ value, onChange, error }) => (
            <TagsInput
              label="Mail addresses"
              description="Press Enter after each. Each gets the figures; the report itself needs a sign-in."
              value={value}
              onChange={onChange}
              error={error}
              splitChars={[',', ' ', ';']}
            />
          ),
        },
        {
          note: 'rights',
          text: 'The report has what you may read. It pauses if you leave or lose the right to change the organization.',
        },
      ]}
    />
  );
}

/** The people to choose from, with those who are chosen already, whether or not they are among them. */
function useChoicesOfPeople(owner: string, chosen: readonly string[]): { value: string; label: string }[] {
  const { people = [] } = usePeopleOf(owner);
  const known = new Map(people.map(({ id, name, email }) => [id, `${name} (${email})`]));
  for (const id of chosen) if (!known.has(id)) known.set(id, 'No longer known');
  return [...known].map(([value, label]) => ({ value, label }));
}
