/**
 * Times for people, in the zone of their machine: `2026-11-29 14:03 CET`. JSON output has the times of the server, in
 * ISO 8601. Pure, but for the zone.
 */

/** `undefined`: that of the machine. */
type Zone = string | undefined;

export const localTime = (iso: string, zone?: Zone): string => written(iso, 'minute', zone);

/** For entries that follow each other closely. */
export const localSeconds = (iso: string, zone?: Zone): string => written(iso, 'second', zone);

function written(iso: string, precision: 'minute' | 'second', zone: Zone): string {
  const time = new Date(iso);
  // What is no time, such as what a newer server may write, is shown as it is.
  if (Number.isNaN(time.getTime())) return iso;
  const parts = new Map(
    digits(zone)
      .formatToParts(time)
      .map(({ type, value }) => [type, value]),
  );
  const part = (type: Intl.DateTimeFormatPartTypes) => parts.get(type) ?? '';
  const day = `${part('year')}-${part('month')}-${part('day')}`;
  const seconds = precision === 'second' ? `:${part('second')}` : '';
  return `${day} ${part('hour')}:${part('minute')}${seconds} ${zoneName(time, zone)}`;
}

/** A language has short names for the zones of its own countries only; elsewhere it writes an offset. */
const LANGUAGES = ['en-GB', 'en-US', 'en-AU', 'en-CA', 'en-IN', 'en-ZA'];

function zoneName(time: Date, zone: Zone): string {
  let name = '';
  for (const language of LANGUAGES) {
    name = nameOf(formatter(language, zone), time);
    if (!/^(GMT|UTC)[+-]/.test(name)) return name;
  }
  return name.replace('GMT', 'UTC');
}

const nameOf = (format: Intl.DateTimeFormat, time: Date) =>
  format.formatToParts(time).find(({ type }) => type === 'timeZoneName')?.value ?? '';

/** Making one takes far longer than using it. */
const formatters = new Map<string, Intl.DateTimeFormat>();

function kept(key: string, make: () => Intl.DateTimeFormat): Intl.DateTimeFormat {
  const known = formatters.get(key) ?? make();
  formatters.set(key, known);
  return known;
}

const formatter = (language: string, zone: Zone) =>
  kept(
    `${language} ${zone}`,
    () => new Intl.DateTimeFormat(language, { timeZone: zone, timeZoneName: 'short' }),
  );

const digits = (zone: Zone) =>
  kept(
    `digits ${zone}`,
    () =>
      new Intl.DateTimeFormat('en-GB', {
        timeZone: zone,
        calendar: 'gregory',
        numberingSystem: 'latn',
        year: 'numeric',
        month: '2-digit',
        day: '2-digit',
        hour: '2-digit',
        minute: '2-digit',
        second: '2-digit',
        hourCycle: 'h23',
      }),
  );
