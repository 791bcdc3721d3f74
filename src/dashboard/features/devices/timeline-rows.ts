import type { TimelineEntry } from '../../api/routes.ts';

/** What the history of a device shows, from the entries of its timeline. Pure. */

type Of<K extends TimelineEntry['kind']> = Extract<TimelineEntry, { kind: K }>;

export type TimelineRow =
  | { kind: 'entry'; key: string; at: string; entry: TimelineEntry }
  /** Many changes of the connection in a row, with nothing between them. */
  | {
      kind: 'flapping';
      key: string;
      at: string;
      since: string;
      losses: number;
      state: Of<'presence'>['state'];
    };

/** So many changes of the connection in a row are shown one by one. */
const ONE_BY_ONE = 4;

export function timelineRows(entries: readonly TimelineEntry[]): TimelineRow[] {
  const rows: TimelineRow[] = [];
  for (let from = 0; from < entries.length; ) {
    const run = presenceRun(entries, from);
    const [newest] = run;
    const oldest = run.at(-1);
    if (run.length > ONE_BY_ONE && newest !== undefined && oldest !== undefined) {
      rows.push({
        kind: 'flapping',
        key: `flapping ${oldest.id}`,
        at: newest.at,
        since: oldest.at,
        losses: run.filter(({ state }) => state === 'disconnected').length,
        state: newest.state,
      });
      from += run.length;
      continue;
    }
    const entry = entries[from];
    if (entry !== undefined) {
      rows.push({ kind: 'entry', key: `${entry.kind} ${entry.id}`, at: entry.at, entry });
    }
    from += 1;
  }
  return rows;
}

function presenceRun(entries: readonly TimelineEntry[], from: number): Of<'presence'>[] {
  const run: Of<'presence'>[] = [];
  for (const entry of entries.slice(from)) {
    if (entry.kind !== 'presence') break;
    run.push(entry);
  }
  return run;
}

/** The rows by the days of the person who reads them, in their order. @param dayOf  the name of the day */
export function byDay(
  rows: readonly TimelineRow[],
  dayOf: (at: Date) => string,
): { day: string; rows: TimelineRow[] }[] {
  const days: { day: string; rows: TimelineRow[] }[] = [];
  for (const row of rows) {
    const day = dayOf(new Date(row.at));
    const last = days.at(-1);
    if (last?.day === day) last.rows.push(row);
    else days.push({ day, rows: [row] });
  }
  return days;
}

/** "2 programs installed, 1 updated: Acrobat, Firefox and 1 more" */
export function softwareText({ installed, updated, removed, names }: Of<'software'>): string {
  const parts = [
    [installed, 'installed'],
    [updated, 'updated'],
    [removed, 'removed'],
  ] as const;
  const known = parts.filter(([count]) => count > 0);
  const counts = known.map(([count, verb], place) =>
    place === 0 ? `${count} program${count === 1 ? '' : 's'} ${verb}` : `${count} ${verb}`,
  );
  const more = installed + updated + removed - names.length;
  return `${counts.join(', ')}: ${names.join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}

const CHANGES: Readonly<Record<string, string>> = {
  'device.approve': 'Approved',
  'device.delete': 'Taken out of service',
  'device.maintenance': 'Maintenance changed',
  'device.move': 'Moved to another site or organization',
  'device.process.end': 'A process was ended',
  'device.renamed': 'The machine has another host name',
  'device.restore': 'Put back in service',
  'device.service.restart': 'A service was restarted',
  'device.service.start': 'A service was started',
  'device.service.stop': 'A service was stopped',
  'device.upgrade': 'An upgrade was asked for',
};

/** "Changed display name, tags (denied)" */
export function changeText(
  { action, fields, result }: Of<'change'>,
  fieldName: (field: string) => string,
): string {
  const text =
    CHANGES[action] ?? (fields.length === 0 ? 'Changed' : `Changed ${fields.map(fieldName).join(', ')}`);
  return result === 'success' ? text : `${text} (${result === 'denied' ? 'denied' : 'failed'})`;
}
