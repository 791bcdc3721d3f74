import { Group, Stack, Text } from '@mantine/core';
import { IconChevronLeft, IconChevronRight, IconTool } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { type Answer, apiQuery } from '../../api/index.ts';
import { useScope } from '../../routing.ts';
import { Action, formatTime, Loaded, Notice, useAddress, useNow } from '../../ui/index.ts';
import styles from './calendar-page.module.css';
import { MaintenanceFrame } from './maintenance-frame.tsx';
import { dayText } from './window-form.ts';

const route = getRouteApi('/signed-in/maintenance/calendar');
const DAY_NAME = new Intl.DateTimeFormat(undefined, { weekday: 'long' });
const MONTH_NAME = new Intl.DateTimeFormat(undefined, { month: 'long', year: 'numeric' });
const CLOCK = new Intl.DateTimeFormat(undefined, { hour: 'numeric', minute: '2-digit' });
const FULL_DAY = new Intl.DateTimeFormat(undefined, { dateStyle: 'full' });

/** A month with the occurrences of all windows, on the calendar and the clocks of this computer. */
export function CalendarPage() {
  const address = useAddress(route.useSearch());
  const { orgId } = useScope();
  const today = dayText(new Date(useNow()));
  const month = address.search.month ?? today.slice(0, 7);
  const weeks = weeksOf(month);
  const begin = dayOf(`${month}-01`);
  const [first, last] = [weeks[0]?.[0] ?? begin, weeks.at(-1)?.[6] ?? begin];
  const query = { orgId, from: first.toISOString(), to: new Date(nextDay(last).getTime() - 1).toISOString() };
  const calendar = useQuery(apiQuery('GET /maintenance-windows/occurrences', { query }));
  const turn = (by: number) => address.set({ month: monthBeside(month, by) });
  const title = MONTH_NAME.format(begin);
  return (
    <MaintenanceFrame
      title="Calendar of maintenance"
      description="When the maintenance windows are in progress, on the clocks of this computer."
    >
      <Group justify="space-between">
        <Text fw={600} aria-live="polite">
          {title}
        </Text>
        <Group gap="xs">
          <Action variant="default" icon={IconChevronLeft} onClick={() => turn(-1)}>
            Month before
          </Action>
          <Action variant="default" onClick={() => address.set({ month: undefined })}>
            This month
          </Action>
          <Action variant="default" icon={IconChevronRight} onClick={() => turn(1)}>
            Next month
          </Action>
        </Group>
      </Group>
      <Loaded query={calendar} what="Reading the calendar">
        {({ data, complete }) => (
          <Stack gap="sm">
            {!complete && (
              <Notice tone="warning">
                Only a part of the occurrences is shown. Choose an organization to see all of its own.
              </Notice>
            )}
            {data.length === 0 && <Text size="sm">No maintenance is planned in this month.</Text>}
            <Month title={title} month={month} weeks={weeks} today={today} occurrences={data} />
          </Stack>
        )}
      </Loaded>
    </MaintenanceFrame>
  );
}

type Occurrence = Answer<'GET /maintenance-windows/occurrences'>['data'][number];

function Month({
  title,
  month,
  weeks,
  today,
  occurrences,
}: {
  title: string;
  month: string;
  weeks: readonly (readonly Date[])[];
  today: string;
  occurrences: readonly Occurrence[];
}) {
  const header = weeks[0] ?? [];
  return (
    // A keyboard scrolls it where there is no room for seven days.
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex
    <div className={styles['frame']} role="region" aria-label={`Calendar, ${title}`} tabIndex={0}>
      <table className={styles['month']}>
        <caption className={styles['caption']}>{title}</caption>
        <thead>
          <tr>
            {header.map((day) => (
              <th key={day.getTime()} scope="col">
                {DAY_NAME.format(day)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {weeks.map((week) => (
            <tr key={week[0]?.getTime()}>
              {week.map((day) => (
                <Day
                  key={day.getTime()}
                  day={day}
                  isOther={!dayText(day).startsWith(month)}
                  isToday={dayText(day) === today}
                  occurrences={occurrences}
                />
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Day({
  day,
  isOther,
  isToday,
  occurrences,
}: {
  day: Date;
  isOther: boolean;
  isToday: boolean;
  occurrences: readonly Occurrence[];
}) {
  const [begin, end] = [day.getTime(), nextDay(day).getTime()];
  const here = occurrences.filter(
    ({ startsAt, endsAt }) => Date.parse(startsAt) < end && Date.parse(endsAt) > begin,
  );
  return (
    <td
      data-other={isOther || undefined}
      data-today={isToday || undefined}
      {...(isToday ? { 'aria-current': 'date' } : {})}
    >
      <time dateTime={dayText(day)} aria-label={FULL_DAY.format(day)}>
        {day.getDate()}
      </time>
      {here.length > 0 && (
        <ul className={styles['list']}>
          {here.map((one) => (
            <li
              key={`${one.windowId} ${one.startsAt}`}
              title={`${one.name}: ${formatTime(new Date(one.startsAt))} – ${formatTime(new Date(one.endsAt))}`}
            >
              <IconTool size={12} aria-hidden /> <b>{partOfDay(one, begin, end)}</b> {one.name}
            </li>
          ))}
        </ul>
      )}
    </td>
  );
}

/** "22:00", on the first day of it; "until 02:00" on the last one, "all day" in between. */
function partOfDay({ startsAt, endsAt }: Occurrence, begin: number, end: number): string {
  const [from, to] = [new Date(startsAt), new Date(endsAt)];
  if (from.getTime() >= begin) return CLOCK.format(from);
  return to.getTime() <= end ? `until ${CLOCK.format(to)}` : 'all day';
}

/** Midnight on the clocks of this computer. */
const dayOf = (text: string): Date => new Date(`${text}T00:00`);

function nextDay(day: Date): Date {
  const next = new Date(day);
  next.setDate(next.getDate() + 1);
  return next;
}

/** The weeks of a month, from Monday to Sunday, with the days of other months in the first and the last of them. */
function weeksOf(month: string): Date[][] {
  const first = dayOf(`${month}-01`);
  const begin = new Date(first);
  begin.setDate(begin.getDate() - ((first.getDay() + 6) % 7));
  const weeks: Date[][] = [];
  for (let day = begin; day < first || dayText(day).startsWith(month); ) {
    const week: Date[] = [];
    for (let count = 0; count < 7; count++) {
      week.push(day);
      day = nextDay(day);
    }
    weeks.push(week);
  }
  return weeks;
}

function monthBeside(month: string, by: number): string {
  const first = dayOf(`${month}-01`);
  first.setMonth(first.getMonth() + by);
  return dayText(first).slice(0, 7);
}
